import Foundation
import RoundtableKernel
import RoundtableTestSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension Campaign {
    func inflict(_ fault: CampaignFault) throws {
        let path = fleet.controlBlock.path
        switch fault {
        case .kill:
            let victim = members.filter { !$0.isResident }.randomElement(using: &random)!
            victim.peer.process.end()
            try replace(victim)
        case .stop, .terminalStop:
            guard let victim = members.filter({ $0.resumes == nil }).randomElement(using: &random) else { return }
            victim.peer.process.signal(fault == .stop ? SIGSTOP : SIGTSTP)
            victim.resumes = .now + .milliseconds(.random(in: 1...800, using: &random))
        case .controlBlockDeleted:
            unlink(path)
        case .controlBlockEmptied:
            truncate(path, 0)
        case .controlBlockHalved:
            truncate(path, off_t(Layout.fileSize / 2))
        case .controlBlockNoise:
            let bytes = Data(random.bytes(Layout.fileSize))
            guard let file = FileHandle(forWritingAtPath: path) else { return }
            defer { try? file.close() }
            try file.write(contentsOf: bytes)
        case .stranger:
            try replaceStranger()
        case .diskFull:
            guard let disk else { return }
            try disk.fill()
            diskEmpties = .now + .milliseconds(.random(in: 50...1500, using: &random))
        }
    }

    /// Mounts the file system that the database is to lie in.
    func mountDisk() throws {
        disk = LimitedDisk(at: fleet.databaseFolder, bytes: 64 << 20)
        guard disk != nil else { throw TestKitError("a full disk needs the permission to mount a tmpfs") }
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: fleet.databaseFolder.path)
    }

    func emptyDisk() {
        disk?.empty()
        diskEmpties = nil
    }

    /// A program that does not know Roundtable, and counts its commits as the others do.
    private static let program = """
        import os, sqlite3, struct, sys, time
        db = sqlite3.connect(sys.argv[1], timeout=100, isolation_level=None)
        progress = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o666)
        n = 1
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                for part in range(1 + n % 3):
                    db.execute("INSERT INTO entry (author, n, part) VALUES (?, ?, ?)", (sys.argv[3], n, part))
                db.execute("COMMIT")
            except sqlite3.OperationalError as error:
                if "disk is full" not in str(error): raise
                if db.in_transaction: db.execute("ROLLBACK")
                time.sleep(0.02)
                continue
            os.pwrite(progress, struct.pack("<Q", n), 0)
            n += 1
            time.sleep(0.02)
        """

    private func replaceStranger() throws {
        endStranger()
        strangers += 1
        let name = "stranger-\(strangers)"
        let work = strangerWork(name)
        stranger = try fleet.spawn(
            program: URL(fileURLWithPath: "/usr/bin/env"),
            arguments: ["python3", "-c", Self.program, fleet.database.path, work.progress, name]
        )
    }

    func strangerWork(_ name: String) -> CampaignWork {
        CampaignWork(
            role: .writer,
            author: name,
            path: fleet.database.path,
            folder: notes.path,
            seed: 0,
            pauseMilliseconds: 0,
            checkpointThreshold: 0
        )
    }

    /// Kills the stranger, if there is one.
    func endStranger() {
        guard let stranger else { return }
        stranger.end()
        self.stranger = nil
        let work = strangerWork("stranger-\(strangers)")
        let acknowledged = ProgressFile.count(at: work.progress)
        report.acknowledged += acknowledged
        verifier.end(work, acknowledged: acknowledged)
    }
}
