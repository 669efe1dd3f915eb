#!/usr/bin/env python3
"""Computes the test vectors of the protocol from its text: docs/PROTOCOL.md and docs/PROTOCOL-FILES.md. It shares no code with the package.

protocol-vectors.py            writes docs/protocol-vectors.json
protocol-vectors.py --check    fails if that file is another
"""
import json
import pathlib
import struct
import sys
import uuid

PATH = pathlib.Path(__file__).resolve().parent.parent / "docs" / "protocol-vectors.json"
MODULO_64 = (1 << 64) - 1


def u8(value):
    return struct.pack("<B", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def fnv1a(data):
    hash = 0xCBF29CE484222325
    for byte in data:
        hash = ((hash ^ byte) * 0x100000001B3) & MODULO_64
    return hash


def digits(word):
    return "%016x" % word


# Shared memory


def text_field(text, size, number=0):
    data = text.encode()
    assert len(data) <= size - 5
    return (u32(number) + u8(len(data)) + data).ljust(size, b"\0")


def owner_word(pid, incarnation):
    return pid << 32 | incarnation


def turn_word(generation, slot, phase):
    return generation << 32 | (0 if slot is None else slot + 1) << 16 | phase


def seal():
    data = b"RNDTABLE" + u32(4) + u32(4096) + u32(384) + u32(256) + u64(266240)
    return data + u64(fnv1a(data))


def stamp(*files):
    return fnv1a(b"".join(u64(file["device"]) + u64(file["inode"]) for file in files))


def slot_bytes(slot):
    files = slot["files"]
    description = (
        {"readWrite": 1, "readOnly": 2}[slot["role"]]
        | slot["priority"] << 8
        | {"present": 1, "settingUp": 2, "suspended": 3}[slot["state"]] << 16
        | slot["isLocked"] << 24
        | slot["refusesWrites"] << 25
        | slot["incarnation"] << 32
    )
    site, line = slot["callSite"].split(":")
    read_site, read_line = slot["readCallSite"].split(":")
    fields = {
        0: u64(owner_word(slot["pid"], slot["incarnation"])),
        8: u64(slot["startTime"]),
        16: u64(slot["namespace"]),
        24: u64(description),
        32: u64(slot["ticket"]),
        40: u64(slot["waitingSince"]),
        48: u32(slot["wakeWord"]),
        56: u64(slot["lingerUntil"]),
        64: u64(slot["writingSince"]),
        72: u64(slot["turnsTaken"]),
        80: u64(slot["longestWait"]),
        88: u64(slot["joinedAt"]),
        96: text_field(slot["author"], 48),
        144: text_field(site, 96, int(line)),
        240: u64(slot["oldestReadSince"]),
        248: u64(slot["oldestReadSalt"] << 32 | slot["oldestReadFrames"]),
        256: text_field(read_site, 96, int(read_line)),
        352: u64(slot["askedToAdvance"]),
        360: u64(slot["commandsFolder"]),
        368: u64(stamp(files["database"])),
        376: u64(slot["incarnation"] << 32 | stamp(files["wal"], files["shm"]) & 0xFFFFFFFF),
    }
    data = bytearray(384)
    for offset, field in fields.items():
        data[offset : offset + len(field)] = field
    return bytes(data)


def record_bytes(record):
    tables = [0] * 4
    for number in record["tables"]:
        tables[number // 64] |= 1 << number % 64
    fields = (
        u64(record["counter"] | record["tablesAreUnknown"] << 32)
        + u64(owner_word(record["pid"], record["incarnation"]))
        + u64(record["time"])
        + b"".join(map(u64, tables))
        + text_field(record["author"], 48)
    )
    sequence = record["sequence"]
    checksum = (sequence + 0x9E3779B97F4A7C15) & MODULO_64
    for (word,) in struct.iter_unpack("<Q", fields):
        checksum = ((checksum ^ word) * 0xFF51AFD7ED558CCD) & MODULO_64
        checksum ^= checksum >> 32
    state = ["reserved", "committed", "aside", "void", "unsure"].index(record["state"]) + 1
    return u64(sequence) + u64(state | sequence % (1 << 56) << 8) + fields + u64(checksum)


def entry_bytes(name):
    return u64(fnv1a(name.encode())) + name.encode().ljust(120, b"\0")


# Files


def snapshot_bytes(snapshot):
    value, writer = snapshot["value"].encode(), snapshot["writer"].encode()
    header = b"RTSNAP\r\n" + u32(1) + u32(128) + u64(snapshot["version"]) + u64(snapshot["sequence"])
    header += u64(int(snapshot["token"], 16)) + u64(int(snapshot["time"], 16)) + u64(len(value)) + u64(fnv1a(value))
    header += u32(snapshot["encoding"]) + u32(len(writer)) + writer.ljust(48, b"\0")
    return header + u64(fnv1a(header)) + value


def command_bytes(command):
    name, sender, payload = (command[key].encode() for key in ("name", "sender", "payload"))
    header = b"RTCMND\r\n" + u32(1) + u32(128) + uuid.UUID(command["id"]).bytes + u64(command["version"])
    header += u64(int(command["time"], 16)) + u32(len(name)) + u32(len(sender)) + u64(len(payload))
    header += u64(fnv1a(name + sender + payload))
    header = header.ljust(120, b"\0")
    return header + u64(fnv1a(header)) + name + sender + payload


def command_name(sender, epoch, stream, number):
    plain = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
    encoded = "".join(chr(byte) if byte in plain else "%%%02X" % byte for byte in sender.encode())
    return "%s.%010d.%08x.%012d.command" % (encoded, epoch, stream, number)


def answer_bytes(outcome, reason):
    header = b"RTANSW\r\n" + u32(1) + u32(outcome) + u64(len(reason.encode()))
    return header + u64(fnv1a(header + reason.encode())) + reason.encode()


def salt_bytes(salt):
    data = b"RTSALT\r\n" + u32(1) + u32(16) + salt
    return data + u64(fnv1a(data))


def vectors():
    slot = {
        "pid": 4242, "incarnation": 7, "startTime": 123456, "namespace": 4026531836, "role": "readWrite", "priority": 1,
        "state": "settingUp", "isLocked": True, "refusesWrites": True, "ticket": 9, "waitingSince": 1_000_000_000, "wakeWord": 5,
        "lingerUntil": 2_002_000_000, "writingSince": 2_000_000_000, "turnsTaken": 17, "longestWait": 3_500_000,
        "joinedAt": 1_795_000_000, "author": "app", "callSite": "Feed.swift:42", "oldestReadSince": 1_900_000_000,
        "oldestReadFrames": 120, "oldestReadSalt": 0xA1B2C3D4, "readCallSite": "Widget.swift:7", "askedToAdvance": 1_950_000_000,
        "commandsFolder": 655_361,
        "files": {
            "database": {"device": 2049, "inode": 1311000}, "wal": {"device": 2049, "inode": 1311001},
            "shm": {"device": 2049, "inode": 1311002},
        },
    }
    files = slot["files"]
    slot["databaseStamp"] = digits(stamp(files["database"]))
    slot["companionStamp"] = stamp(files["wal"], files["shm"]) & 0xFFFFFFFF
    record = {
        "sequence": 1025, "state": "committed", "counter": 4711, "tablesAreUnknown": False, "pid": 4242, "incarnation": 7,
        "time": 1_234_567_890, "tables": [0, 200], "author": "app",
    }
    snapshot = {
        "version": 3, "sequence": 12, "token": "1122334455667788", "time": digits(1_795_000_000_123_456_789), "encoding": 1,
        "writer": "app", "value": '{"name":"Arthur","scores":[1,2,3]}',
    }
    command = {
        "fileName": command_name("küche", 3, 0x00C0FFEE, 42), "id": "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "name": "add-entry",
        "version": 1, "sender": "küche", "epoch": 3, "time": digits(1_795_000_000_000_000_000), "payload": '{"text":"milk"}',
    }
    phases = ["free", "granted", "busy", "lingering"]
    turns = [
        (0, None, "free"), (1, 0, "busy"), (1, 0, "lingering"), (2, 7, "granted"), (2, 7, "busy"), (0xFFFFFFFF, 255, "busy"),
    ]
    salt = bytes(range(16))
    return {
        "about": "Test vectors of docs/PROTOCOL.md and docs/PROTOCOL-FILES.md, by scripts/protocol-vectors.py. Bytes are in hexadecimal "
        "digits, in the order of the file. Numbers of 64 bits in text have 16 hexadecimal digits, the most significant first.",
        "fnv1a": [{"bytes": data.hex(), "sum": digits(fnv1a(data))} for data in (b"", b"entry")],
        "seal": {
            "bytes": seal().hex(), "version": 4, "headerSize": 4096, "slotSize": 384, "slotCount": 256, "fileSize": 266240,
            "checksum": digits(fnv1a(seal()[:32])),
        },
        "turns": [
            {"word": digits(turn_word(generation, slot, phases.index(phase))), "generation": generation, "slot": slot, "phase": phase}
            for generation, slot, phase in turns
        ],
        "turnsThatCountAsFree": [digits(word) for word in (MODULO_64, 0xFFFF0001, 257 << 16 | 2, 0x00010007)],
        "slot": {"bytes": slot_bytes(slot).hex(), **slot},
        "dictionaryEntry": {"bytes": entry_bytes("entry").hex(), "name": "entry"},
        "record": {"bytes": record_bytes(record).hex(), **record},
        "snapshot": {"bytes": snapshot_bytes(snapshot).hex(), **snapshot},
        "command": {"bytes": command_bytes(command).hex(), **command},
        "answers": [
            {"bytes": answer_bytes(1, "").hex(), "outcome": "applied", "reason": ""},
            {"bytes": answer_bytes(6, "no such list").hex(), "outcome": "refused", "reason": "no such list"},
        ],
        "salt": {"bytes": salt_bytes(salt).hex(), "salt": salt.hex()},
    }


def main():
    text = json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n"
    if sys.argv[1:] == ["--check"]:
        if PATH.read_text(encoding="utf-8") != text:
            sys.exit(f"{PATH}: differs from what the protocol's text says. Run scripts/protocol-vectors.py, and look at the difference.")
    else:
        PATH.write_text(text, encoding="utf-8")


main()
