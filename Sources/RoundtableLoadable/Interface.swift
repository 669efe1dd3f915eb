import CRoundtableLoadable
import CRoundtableShims
import RoundtableKernel

// The functions that `CRoundtableLoadable.h` declares for the participant.

@_cdecl("rtl_participant_open")
public func openParticipant(
    _ file: OpaquePointer?,
    _ path: UnsafePointer<CChar>?,
    _ author: UnsafePointer<CChar>?,
    _ createsBlock: CInt
) -> UnsafeMutableRawPointer? {
    // A name that is repaired would be that of another file.
    guard let file, let path = path.flatMap({ String(validatingCString: $0) }), let author else { return nil }
    let participant = LoadedParticipant(
        FileOfHost(file),
        path: path,
        author: String(cString: author),
        createsBlock: createsBlock != 0
    )
    return Unmanaged.passRetained(participant).toOpaque()
}

@_cdecl("rtl_participant_close")
public func closeParticipant(_ participant: UnsafeMutableRawPointer?) {
    guard let participant else { return }
    let unmanaged = Unmanaged<LoadedParticipant>.fromOpaque(participant)
    unmanaged.takeUnretainedValue().leave()
    unmanaged.release()
}

@_cdecl("rtl_participant_has_joined")
public func participantHasJoined(_ participant: UnsafeMutableRawPointer?) -> CInt {
    LoadedParticipant.at(participant)?.hasJoined == true ? 1 : 0
}

@_cdecl("rtl_is_open_before_fork")
public func isOpenBeforeFork(_ path: UnsafePointer<CChar>?) -> CInt {
    guard let path = path.flatMap({ String(validatingCString: $0) }), let file = try? System.identity(ofFileAt: path)
    else { return 0 }
    return rt_open_file_is_inherited(file.device, file.inode)
}

@_cdecl("rtl_participant_has_lost_file")
public func participantHasLostFile(_ participant: UnsafeMutableRawPointer?, _ now: CInt) -> CInt {
    LoadedParticipant.at(participant)?.hasLostFile(now: now != 0) == true ? 1 : 0
}

@_cdecl("rtl_participant_note_wal")
public func participantNoteWAL(_ participant: UnsafeMutableRawPointer?, _ isOpen: CInt) {
    LoadedParticipant.at(participant)?.noteWAL(isOpen: isOpen != 0)
}

@_cdecl("rtl_participant_will_lock")
public func participantWillLock(_ participant: UnsafeMutableRawPointer?) -> CInt {
    LoadedParticipant.at(participant).map { $0.mayRequestLock() ? 1 : 0 } ?? 1
}

@_cdecl("rtl_participant_did_lock")
public func participantDidLock(_ participant: UnsafeMutableRawPointer?, _ isLocked: CInt) {
    LoadedParticipant.at(participant)?.didRequestLock(isLocked: isLocked != 0)
}

@_cdecl("rtl_participant_will_unlock")
public func participantWillUnlock(_ participant: UnsafeMutableRawPointer?) {
    LoadedParticipant.at(participant)?.willUnlock()
}

@_cdecl("rtl_participant_did_unlock")
public func participantDidUnlock(_ participant: UnsafeMutableRawPointer?) {
    LoadedParticipant.at(participant)?.didUnlock()
}

@_cdecl("rtl_participant_sleep")
public func participantSleep(_ participant: UnsafeMutableRawPointer?, _ microseconds: CInt) -> CInt {
    guard let participant = LoadedParticipant.at(participant), microseconds > 0,
        let slept = participant.sleep(Nanoseconds(microseconds) * 1000)
    else { return -1 }
    return CInt(clamping: slept / 1000)
}

@_cdecl("rtl_participant_describe")
public func describeParticipant(
    _ participant: UnsafeMutableRawPointer?,
    _ text: UnsafeMutablePointer<CChar>?,
    _ size: CInt
) -> CInt {
    guard let text, size > 0 else { return 0 }
    let bytes = Array((LoadedParticipant.at(participant)?.description ?? "the file is closed").utf8)
    let count = min(bytes.count, Int(size) - 1)
    for index in 0..<count { text[index] = CChar(bitPattern: bytes[index]) }
    text[count] = 0
    return CInt(bytes.count)
}

extension LoadedParticipant {
    fileprivate static func at(_ pointer: UnsafeMutableRawPointer?) -> LoadedParticipant? {
        pointer.map { Unmanaged<LoadedParticipant>.fromOpaque($0).takeUnretainedValue() }
    }
}
