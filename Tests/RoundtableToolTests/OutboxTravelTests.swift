import Foundation
import Roundtable
import RoundtableFiles
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// Shipper and collector without rclone and without other processes (rules Z).
@Suite struct OutboxTravelTests {
    @Test func commandsTravelAndTheirOutcomesReturn() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        for _ in 1...3 { try world.submit(machine, "widget") }
        #expect(try machine.shipper.round() == TravelRound(waiting: 3, moved: 3))
        #expect(try world.collector.round().moved == 3)
        #expect(try world.inbox.isHandedOver())
        #expect(try machine.shipper.round().decided == 0)
        #expect(try world.waiting() == 3, "nothing is removed before it is decided")
        try world.apply()
        #expect(try world.collector.round().decided == 3)
        #expect(!(try world.inbox.isHandedOver()))
        #expect(try machine.shipper.round().decided == 3)
        #expect(try world.waiting() == 0)
        #expect(try world.applied() == ["machine-0/widget": [1, 2, 3]])
        // What is left is the last list and the last record.
        _ = try world.collector.round()
        #expect(world.store.objects.keys.filter { $0.hasPrefix("routes/") }.count == 2)
    }

    /// Everything fails at random: the store, the processes, and system calls of each of them (rules Z4 to Z9).
    @Test(.long()) func everythingFailsAtRandom() throws {
        var random = SeededGenerator()
        for number in 1...(isLongRun ? 200 : 6) {
            let world = try OutboxTravelWorld(machines: 2)
            world.store.random = SeededGenerator(seed: random.next())
            world.store.faults = .init(refusal: 0.02, hidden: 0.1, damage: 0.05, omission: 0.05, comeback: 0.2)
            for _ in 1...150 {
                let machine = world.machines.randomElement(using: &random)!
                let step = Int.random(in: 0..<20, using: &random)
                // Later calls of these kinds fail, until the process is started again.
                let faults =
                    Int.random(in: 0..<5, using: &random) > 0
                    ? []
                    : [SystemCall.rename, .link, .fsync, .unlink, .open, .mkdir].shuffled(using: &random).prefix(2).map
                    {
                        Fault($0, errno: EIO, skipping: Int.random(in: 0..<12, using: &random))
                    }
                do {
                    switch step {
                    case 0..<6:
                        let sender = ["widget", "share"].randomElement(using: &random)!
                        try world.submit(machine, sender, isNewProcess: Int.random(in: 0..<4, using: &random) == 0)
                    case 6..<10: try System.withFaults(faults) { _ = try machine.shipper.round() }
                    case 10..<14: try System.withFaults(faults) { _ = try world.collector.round() }
                    case 14..<17: try world.apply()
                    case 17: try world.restart(machine)
                    case 18: world.restartCollector()
                    default: world.pass(Double.random(in: 0..<40, using: &random))
                    }
                } catch {
                    if !faults.isEmpty {
                        try world.restart(machine)
                        world.restartCollector()
                    }
                }
                if let problem = try world.problem() {
                    Issue.record("world \(number): \(problem)")
                    return
                }
            }
            world.store.faults = .none
            world.restartCollector()
            let isSettled = try world.settle()
            let missing = try world.missing()
            #expect(isSettled && missing.isEmpty, "world \(number): \(missing)")
            if let problem = try world.problem() { Issue.record("world \(number): \(problem)") }
        }
    }

    /// **Z6**: a command that is missing delays those after it, of its sender alone.
    @Test func aMissingObjectDelaysItsSenderAlone() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        for sender in ["a", "b"] { for _ in 1...3 { try world.submit(machine, sender) } }
        _ = try machine.shipper.round()
        let second = try #require(
            world.store.objects.keys.filter { $0.contains("/commands/a.") }.sorted().dropFirst().first
        )
        let bytes = world.store.objects[second]
        world.store.objects[second] = Array(bytes!.prefix(100))
        for _ in 1...3 {
            _ = try world.collector.round()
            try world.apply()
        }
        #expect(try world.applied() == ["machine-0/a": [1], "machine-0/b": [1, 2, 3]])
        // The size in the listing shows the shipper that it was cut off.
        _ = try machine.shipper.round()
        #expect(world.store.objects[second] == bytes)
        #expect(try world.settle())
        #expect(try world.applied()["machine-0/a"] == [1, 2, 3])
    }

    /// **Z8**: content that is wrong although it has the right size is uploaded again, because the collector says so.
    @Test func aDamagedObjectIsUploadedAgain() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        try world.submit(machine, "a")
        _ = try machine.shipper.round()
        let path = try #require(world.store.objects.keys.first { $0.contains("/commands/") })
        let bytes = world.store.objects[path]!
        world.store.objects[path]![150] ^= 1
        _ = try world.collector.round()
        world.pass(11)
        _ = try machine.shipper.round()
        #expect(world.store.objects[path] == bytes)
        #expect(try world.settle())
    }

    /// **Z7**: the collector is gone for longer than the owner remembers ids, after the command was applied and before that was recorded.
    @Test func aCollectorReturnsAfterTheOwnerWouldHaveForgotten() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        try world.submit(machine, "a")
        _ = try machine.shipper.round()
        _ = try world.collector.round()
        try world.apply()
        try world.passSixtyDays()
        #expect(try world.remembered() == 1)
        world.restartCollector()
        #expect(try world.settle())
        #expect(try world.applied() == ["machine-0/a": [1]])
    }

    /// **Z7**: the store is as it once was, as out of a backup, after the ids were forgotten.
    @Test func anOldStoreReturnsAfterTheOwnerHasForgotten() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        for _ in 1...3 { try world.submit(machine, "a") }
        _ = try machine.shipper.round()
        let old = world.store.objects
        #expect(try world.settle())
        try world.passSixtyDays()
        #expect(try world.remembered() == 0, "the ids are forgotten, or this shows nothing")
        for _ in 1...3 {
            world.store.objects = old
            world.restartCollector()
            _ = try world.collector.round()
            try world.apply()
        }
        #expect(try world.applied() == ["machine-0/a": [1, 2, 3]])
        // The route still works.
        try world.submit(machine, "a")
        #expect(try world.settle())
        #expect(try world.applied() == ["machine-0/a": [1, 2, 3, 4]])
    }

    /// **Z9**: a copy of a sender's folder, with what waits in it, begins a route of its own.
    @Test func aCopiedFolderBeginsAnotherRoute() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        for _ in 1...2 { try world.submit(machine, "a") }
        _ = try machine.shipper.round()
        let path = world.folder.path("copy")
        try FileManager.default.copyItem(atPath: machine.url.path, toPath: path)
        let copy = try world.addMachine(path)
        try world.submit(machine, "a")
        _ = try machine.shipper.round()
        copy.numbers["a"] = 0
        try world.submit(copy, "a")
        #expect(try world.settle())
        #expect(try world.applied() == ["machine-0/a": [1, 2, 3], "copy/a": [1]])
        let routes = Set(
            world.store.objects.keys.filter { $0.hasPrefix("routes/") }.map { $0.split(separator: "/")[1] }
        )
        #expect(routes.count == 2)
    }

    /// **Z8**: programs on the sender's machine ask, before and after the command was removed there.
    @Test func outcomesReachTheWaiter() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        let id = try world.submit(machine, "a")
        let outbox = try #require(machine.outboxes["a"])
        #expect(try outbox.outcome(of: id, within: .zero) == .waiting)
        #expect(try world.settle())
        #expect(try outbox.outcome(of: id, within: .zero) == .applied)
        // The answer is taken, and the record has no such command any more.
        #expect(try outbox.outcome(of: id, within: .zero) == .waiting)
        for _ in 1...3 {
            _ = try machine.shipper.round()
            _ = try world.collector.round()
            try world.apply()
        }
        #expect(try outbox.outcome(of: id, within: .zero) == .applied)
    }

    /// **Z10**: the second collector refuses, takes over if that is requested, and the first one ends.
    @Test func thereIsOneCollector() throws {
        let world = try OutboxTravelWorld()
        _ = try world.collector.round()
        let inbox = try OutboxFolder(at: URL(fileURLWithPath: world.folder.path("other")))
        let second = OutboxCollector(inbox, from: world.store, waitForOutcomes: 0)
        let refusal = #expect(throws: TravelProblem.self) { try second.round() }
        #expect(refusal?.isFinal == true && refusal?.what.contains("another collector") == true)
        #expect(world.store.objects.keys.filter { $0.hasPrefix("collectors/") }.count == 1)
        // A restart of the first one is no other collector.
        world.restartCollector()
        _ = try world.collector.round()
        let third = OutboxCollector(inbox, from: world.store, takesOver: true, waitForOutcomes: 0)
        _ = try third.round()
        let end = #expect(throws: TravelProblem.self) { try world.collector.round() }
        #expect(end?.isFinal == true && end?.what.contains("has taken over") == true)
        _ = try third.round()
    }

    /// **Z10**: a copied folder is another collector.
    @Test func aCopiedCollectorRefuses() throws {
        let world = try OutboxTravelWorld()
        _ = try world.collector.round()
        let path = world.folder.path("copied")
        try FileManager.default.copyItem(atPath: world.inbox.path, toPath: path)
        let copy = OutboxCollector(try OutboxFolder(at: URL(fileURLWithPath: path)), from: world.store)
        #expect(throws: TravelProblem.self) { try copy.round() }
    }

    /// Two collectors that start at the same moment: at most one of them takes anything.
    @Test func twoCollectorsStartAtOnce() throws {
        let world = try OutboxTravelWorld()
        try world.submit(world.machines[0], "a")
        _ = try world.machines[0].shipper.round()
        let inbox = try OutboxFolder(at: URL(fileURLWithPath: world.folder.path("other")))
        let claims = CollectorClaims(inbox, world.store, takesOver: false)
        try inbox.make()
        // The second one lists before the first one has written its claim.
        let before = try world.store.list(["/collectors/*"])
        _ = try world.collector.round()
        #expect(throws: TravelProblem.self) {
            try claims.confirm(in: before) { try world.store.list(["/collectors/*"]) }
        }
        #expect(world.store.objects.keys.filter { $0.hasPrefix("collectors/") }.count == 1)
    }

    /// **Z11**: the newest whole snapshot file arrives, and a file that is none is not replaced.
    @Test func snapshotFilesArrive() throws {
        let world = try OutboxTravelWorld()
        let source = SnapshotFile<[String]>(at: URL(fileURLWithPath: world.folder.path("board.json")), as: "app")
        let target = world.folder.path("machine-side")
        try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
        let collector = OutboxCollector(
            world.inbox,
            from: world.store,
            snapshots: [world.folder.path("board.json")],
            waitForOutcomes: 0
        )
        let shipper = OutboxShipper(world.machines[0].folder, to: world.store, snapshotFolder: target)
        let copy = SnapshotFile<[String]>(at: URL(fileURLWithPath: "\(target)/board.json"), as: "widget")
        #expect(try collector.round().problem?.what.contains("is not a complete snapshot file") == true)
        for value in [["one"], ["one", "two"]] {
            let _: SnapshotInfo = try source.write(value)
            _ = try collector.round()
            let path = try #require(world.store.objects.keys.first { $0.hasPrefix("snapshots/") })
            let bytes = world.store.objects[path]!
            world.store.objects[path] = Array(bytes.dropLast())
            _ = try shipper.round()
            _ = try collector.round()
            _ = try shipper.round()
            guard case .value(let found, let info) = try copy.read() else {
                Issue.record("no value")
                return
            }
            #expect(found == value && info.writer == "app")
        }
        #expect(world.store.objects.keys.filter { $0.hasPrefix("snapshots/") }.count == 1)
        let count = world.store.log.count
        _ = try collector.round()
        _ = try shipper.round()
        #expect(world.store.log.count == count, "nothing is uploaded twice")
        try Data("a text".utf8).write(to: copy.url)
        let _: SnapshotInfo = try source.write(["three"])
        _ = try collector.round()
        #expect(throws: SnapshotFileError.self) { try shipper.round() }
        #expect(try String(contentsOf: copy.url, encoding: .utf8) == "a text")
    }

    /// **Z6**: not more than 1,000 are handed over, and all arrive.
    @Test(.long()) func manyCommandsLeaveRoom() throws {
        let world = try OutboxTravelWorld()
        let machine = world.machines[0]
        for _ in 1...1100 { try world.submit(machine, "a") }
        let counts = try (1...3).map { _ in try machine.shipper.round().moved }
        #expect(counts == [500, 500, 100])
        #expect(try world.collector.round().moved == 1000)
        #expect(try world.collector.round().moved == 0)
        #expect(try world.settle())
        #expect(try world.missing().isEmpty)
    }
}
