#if os(Linux)
    import Foundation
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// Events of problems that only the file system, or another process, can cause.
        @Suite(.serialized) struct Events {
            /// A process that observes is suspended, and cannot open the database again for a while. It reports that once, and once that it
            /// is over; what was committed meanwhile arrives then.
            @Test(.timeLimit(.minutes(2))) func anObserverThatCannotReadTheFile() throws {
                try PeerFleet.run { fleet in
                    try withPolice(.reporting()) { police in
                        let writer = try fleet.spawnOpen("writer")
                        let peer = try fleet.spawn("observer", environment: police.environment)
                        var options = PeerOptions(suspensionPolicy: .everything, takesAssertions: false)
                        options.suspendsOnTerminalStop = true
                        try peer.call(.open(fleet.opening(peer, options: options)))
                        let path = peer.progressPath + ".log"
                        try peer.call(.observe(Observing(log: path, asSequence: false, pause: 0)))
                        let observer = Observer(peer, logPath: path)
                        try observer.waitForValue(0)
                        func events() throws -> [String] {
                            let text = try peer.call(.events).message ?? ""
                            return text.split(separator: "\n").map(String.init).filter { $0.contains(" observation: ") }
                        }

                        try peer.process.stopByTerminal()
                        try writer.call(.write(rows: 1))
                        let file = fleet.database.path
                        let aside = fleet.databaseFolder.appendingPathComponent("aside").path
                        try FileManager.default.moveItem(atPath: file, toPath: aside)
                        peer.process.signal(SIGCONT)
                        try eventually("it is reported", within: .seconds(30)) { try !events().isEmpty }
                        let began = try events()
                        #expect(began.count == 1)
                        #expect(
                            began[0].hasPrefix("error observation: \(file), 'observer': observers are not notified"),
                            "\(began)"
                        )
                        #expect(began[0].contains("SQLite error 14"), "SQLITE_CANTOPEN: \(began)")
                        #expect(try observer.values.last?.lastRow == 0)

                        try FileManager.default.moveItem(atPath: aside, toPath: file)
                        try observer.waitForValue(1, within: .seconds(60))
                        try eventually("the end is reported") { try events().count == 2 }
                        #expect(
                            try events()[1].hasPrefix(
                                "notice observation: \(file), 'observer': observers are notified of changes again"
                            )
                        )
                        try writer.call(.write(rows: 1))
                        try observer.waitForValue(2)
                        #expect(try events().count == 2)
                        #expect(try observer.errors == [])
                    }
                }
            }
        }
    }
#endif
