import Foundation
import Roundtable
import RoundtableFiles
import RoundtableKernel

/// Brings commands from a store into an outbox, and publishes outcomes and snapshot files (rules Z6–Z8, Z10, Z11). For one thread.
final class OutboxCollector {
    let folder: OutboxFolder
    let store: any OutboxStore
    private let snapshots: [String]
    private let claim: CollectorClaims
    private let isEnding: () -> Bool
    private let now: () -> Nanoseconds
    /// How long a round waits for outcomes of what it has handed over.
    private let waitForOutcomes: Nanoseconds

    /// What is known of a route.
    struct Route {
        let file: TravelFile<RouteRecord>
        var record: RouteRecord
        /// What the file holds; nil when it does not hold `record`.
        var mark: StoreMark?
        /// The accepted list, if this process has read it.
        var list: ShippedList?
    }
    private(set) var routes: [UUID: Route] = [:]
    private var hasRead = false
    /// When this process has put a command, or has found it, in `commands`.
    private var there: [UUID: Nanoseconds] = [:]
    /// When the record of a route was uploaded the last time.
    private var published: [UUID: Nanoseconds] = [:]
    private let startedAt: Nanoseconds

    /// How many commands may be handed over and not decided (rule Z6).
    static let window = 1000
    /// After this time, a command that is neither in `commands` nor decided is handed over again.
    private static let patience: Nanoseconds = 60_000_000_000
    /// After this time, a record with outcomes is uploaded again.
    private static let effectDelay: Nanoseconds = 600_000_000_000

    /// - Parameters:
    ///   - snapshots: the paths of the snapshot files to publish.
    ///   - takesOver: whether another collector of the store is replaced.
    init(
        _ folder: OutboxFolder,
        from store: any OutboxStore,
        snapshots: [String] = [],
        takesOver: Bool = false,
        waitForOutcomes: Nanoseconds = 1_000_000_000,
        now: @escaping () -> Nanoseconds = { MonotonicClock.now },
        isEnding: @escaping () -> Bool = { false }
    ) {
        self.folder = folder
        self.store = store
        self.snapshots = snapshots
        self.waitForOutcomes = waitForOutcomes
        self.now = now
        self.isEnding = isEnding
        startedAt = now()
        claim = CollectorClaims(folder, store, takesOver: takesOver)
    }

    /// - throws: ``TravelProblem``; errors of the store and of the system.
    func round() throws -> TravelRound {
        var round = TravelRound()
        try folder.make()
        try folder.removeAbandonedArrivals()
        let objects = try claim.confirm(in: try list(), listing: list)
        try readRecords()
        var failures: [any Error] = []
        func attempt(_ body: () throws -> Void) {
            do { try body() } catch { failures.append(error) }
        }
        attempt { try takeLists(objects) }
        try takeAnswers(&round)
        try handOver(&round, &failures)
        try waitForAnswers(&round)
        try writeRecords()
        try folder.setHandedOver(routes.values.contains { !$0.record.handedOver.isEmpty })
        attempt { try publishRecords(objects) }
        attempt { round.problem = try publishSnapshots(objects) ?? round.problem }
        round.waiting = routes.values.reduce(0) { $0 + $1.undecided }
        if let failure = failures.first { throw failure }
        return round
    }

    private func list() throws -> [StoreObject] {
        try store.list(["/collectors/*", "/routes/*/*.list", "/routes/*/*.outcomes", "/snapshots/*"])
    }

    // MARK: Records and lists

    private func route(_ id: UUID) throws -> Route {
        if let route = routes[id] { return route }
        let file = TravelFile<RouteRecord>(at: folder.recordPath(of: id), as: "collect")
        let found = try file.read()
        return Route(file: file, record: found?.value ?? RouteRecord(route: id), mark: found?.mark)
    }

    /// Records of routes without a list count, too: commands may be handed over from there.
    private func readRecords() throws {
        guard !hasRead else { return }
        for id in try folder.recordedRoutes() { routes[id] = try route(id) }
        hasRead = true
    }

    private func writeRecords() throws {
        for (id, route) in routes where route.mark == nil {
            routes[id]?.mark = try route.file.write(route.record)
        }
    }

    private func change(_ id: UUID, _ body: (inout RouteRecord) -> Void) {
        guard var route = routes[id] else { return }
        let before = route.record
        body(&route.record)
        if route.record != before { route.mark = nil }
        routes[id] = route
    }

    /// Accepts the newest list of each route (rule Z6).
    private func takeLists(_ objects: [StoreObject]) throws {
        var newest: [UUID: StoreMark] = [:]
        for object in objects {
            guard case .list(let id, let mark) = object.name else { continue }
            if mark.sequence > newest[id]?.sequence ?? 0 { newest[id] = mark }
        }
        let wanted = try newest.filter { id, mark in
            let route = try route(id)
            if route.list != nil, route.record.list == mark { return false }
            return mark.sequence >= route.record.list?.sequence ?? 0
        }
        guard !wanted.isEmpty else { return }
        let paths = wanted.map { StoreObject.list($0.value, of: $0.key) }
        try folder.withArrivals { arrivals in
            let failure = Result { try store.download(paths.sorted(), into: arrivals) }
            for (id, mark) in wanted {
                let object = StoreObject.list(mark, of: id)
                // One that is not whole is downloaded again.
                guard let (list, found) = try TravelFile<ShippedList>.read(object, in: arrivals), found == mark,
                    list.route == id
                else { continue }
                accept(list, mark, try route(id))
            }
            try failure.get()
        }
    }

    private func accept(_ list: ShippedList, _ mark: StoreMark, _ route: Route) {
        routes[list.route] = route
        routes[list.route]?.list = list
        let ids = list.ids
        change(list.route) { record in
            record.list = mark
            record.outcomes.removeAll { !ids.contains($0.id) }
            let names = Set(list.commands.map(\.name))
            record.missing.removeAll { !names.contains($0) }
        }
    }

    // MARK: Handing over

    /// The commands of one sender of a route that are to be handed over, in order.
    private struct Queue {
        let route: UUID
        var commands: [ShippedList.Command] = []
        var files: [[UInt8]] = []
    }

    /// Hands over commands, as far as all earlier ones of their senders are there (rules Z6–Z7).
    private func handOver(_ round: inout TravelRound, _ failures: inout [any Error]) throws {
        let commands = try folder.open(.commands)
        var queues = try queues(in: commands, Set(commands.names()))
        guard !queues.isEmpty else { return }
        let inFlight = routes.values.reduce(0) { $0 + $1.record.handedOver.count }
        let share = (Self.window - inFlight) / queues.count
        guard share > 0 || inFlight == 0 else { return }
        for index in queues.indices {
            if queues[index].commands.count > max(1, share) { round.isBusy = true }
            queues[index].commands = Array(queues[index].commands.prefix(max(1, share)))
        }
        try folder.withArrivals { arrivals in
            var isComplete = true
            do {
                let paths = queues.flatMap { queue in
                    queue.commands.map { StoreObject.command($0.name, of: queue.route) }
                }
                try store.download(paths, into: arrivals)
            } catch {
                // What has arrived is handed over nevertheless.
                failures.append(error)
                isComplete = false
            }
            for index in queues.indices { try read(&queues[index], in: arrivals, isComplete: isComplete) }
        }
        for queue in queues where !queue.files.isEmpty {
            let ids = queue.commands.prefix(queue.files.count).map(\.id)
            change(queue.route) { record in
                record.handedOver += ids.filter { !record.handedOver.contains($0) }
            }
        }
        try writeRecords()
        if queues.contains(where: { !$0.files.isEmpty }) { try folder.setHandedOver(true) }
        round.moved = try put(queues, commands)
        if round.moved == 0 { round.isBusy = false }
    }

    /// Of each sender, what is neither decided nor there, up to the first obstacle.
    private func queues(in commands: OpenFolder, _ names: Set<String>) throws -> [Queue] {
        var queues: [Queue] = []
        let time = now()
        for (id, route) in routes.sorted(by: { $0.key.uuidString < $1.key.uuidString }) {
            guard let list = route.list else { continue }
            let decided = Set(route.record.outcomes.map(\.id))
            var found: [CommandFileName] = []
            var bySender: [String: [ShippedList.Command]] = [:]
            for command in list.commands {
                guard let name = CommandFileName(command.name) else { continue }
                found.append(name)
                bySender[name.encodedSender, default: []].append(command)
            }
            for sender in bySender.keys.sorted() {
                var queue = Queue(route: id)
                for command in bySender[sender] ?? [] where !decided.contains(command.id) {
                    if names.contains(command.name) {
                        if there[command.id] == nil {
                            // Another command with this name must be decided first.
                            guard try holds(command, commands) else { break }
                            change(id) { if !$0.handedOver.contains(command.id) { $0.handedOver.append(command.id) } }
                        }
                        there[command.id] = time
                    } else if let put = there[command.id], time.subtractingSaturating(put) < Self.patience {
                        continue
                    } else {
                        queue.commands.append(command)
                    }
                }
                if !queue.commands.isEmpty { queues.append(queue) }
            }
        }
        return queues
    }

    private func holds(_ command: ShippedList.Command, _ commands: OpenFolder) throws -> Bool {
        guard let name = CommandFileName(command.name),
            case .command(let found) = try CommandFile.read(name, in: commands, notOf: folder.databasePath)
        else { return false }
        return found.id == command.id
    }

    /// Reads what was downloaded, up to the first command that is missing or not whole.
    private func read(_ queue: inout Queue, in arrivals: StagingFolder, isComplete: Bool) throws {
        var missing: [String] = []
        let arrivals = try arrivals.folder(at: StoreObject.commands(of: queue.route))
        for command in queue.commands {
            guard let name = CommandFileName(command.name),
                let bytes = try arrivals?.contents(ofFile: command.name, limit: CommandFile.maximumSize),
                bytes.count == command.size, case .command(let file) = CommandFile.content(of: bytes),
                file.id == command.id, file.sender == name.sender
            else {
                if isComplete { missing.append(command.name) }
                break
            }
            queue.files.append(bytes)
        }
        let asked = Set(queue.commands.map(\.name))
        change(queue.route) { record in
            record.missing = record.missing.filter { !asked.contains($0) || !isComplete } + missing
        }
    }

    /// Puts the commands into the outbox: of each sender, one after the other is on the disk (rule Z6).
    ///
    /// - returns: the number of commands that were put.
    private func put(_ queues: [Queue], _ commands: OpenFolder) throws -> Int {
        let access = try folder.access()
        var open = queues
        var count = 0
        for index in 0..<(queues.map(\.files.count).max() ?? 0) {
            if isEnding() { break }
            open.removeAll { $0.files.count <= index }
            var isObstructed: Set<Int> = []
            for (number, queue) in open.enumerated() {
                let command = queue.commands[index]
                do {
                    try folder.put(
                        queue.files[index],
                        as: command.name,
                        in: .commands,
                        access: access,
                        isDurable: true,
                        isReplacing: false
                    )
                    count += 1
                } catch let error as SystemError where error.isAlreadyThere {
                    guard try holds(command, commands) else {
                        isObstructed.insert(number)
                        continue
                    }
                }
                there[command.id] = now()
            }
            try folder.sync(.commands)
            open = open.enumerated().filter { !isObstructed.contains($0.offset) }.map(\.element)
        }
        return count
    }

    // MARK: Outcomes

    /// Asks about everything whose outcome is wanted, and takes the answers (rule Z8).
    private func takeAnswers(_ round: inout TravelRound) throws {
        var wanted: Set<UUID> = []
        for route in routes.values {
            wanted.formUnion(route.record.handedOver)
            guard let list = route.list else { continue }
            let known = Set(route.record.outcomes.map(\.id))
            wanted.formUnion(list.questions.filter { !known.contains($0) })
        }
        guard !wanted.isEmpty else { return }
        let answers = Set(try folder.names(in: .answers) ?? [])
        let questions = Set(try folder.names(in: .questions) ?? [])
        let access = try folder.access()
        var outcomes: [UUID: RouteRecord.Outcome] = [:]
        for id in wanted {
            let question = OutboxQuestion(id: id, folder: folder)
            if answers.contains(id.uuidString), let answer = try question.takeAnswer() {
                outcomes[id] = RouteRecord.Outcome(id, answer)
            } else if !questions.contains(id.uuidString) {
                try question.ask(access)
            }
        }
        guard !outcomes.isEmpty else { return }
        for (id, route) in routes {
            let ids = route.list?.ids ?? []
            change(id) { record in
                let before = record.handedOver.count
                record.handedOver.removeAll { outcomes[$0] != nil }
                round.decided += before - record.handedOver.count
                let known = Set(record.outcomes.map(\.id))
                let new = outcomes.values.filter { ids.contains($0.id) && !known.contains($0.id) }
                record.outcomes += new.sorted { $0.id.uuidString < $1.id.uuidString }
            }
        }
        for id in outcomes.keys { there[id] = nil }
    }

    private func waitForAnswers(_ round: inout TravelRound) throws {
        guard round.moved > 0 else { return }
        let deadline = now() + waitForOutcomes
        while true {
            try takeAnswers(&round)
            let isOpen = routes.values.contains { !$0.record.handedOver.isEmpty }
            if !isOpen || isEnding() || now() >= deadline { return }
            MonotonicClock.sleep(10_000_000)
        }
    }

    private func publishRecords(_ objects: [StoreObject]) throws {
        for (id, route) in routes {
            guard let mark = route.mark else { continue }
            let path = StoreObject.outcomes(mark, of: id)
            let present = objects.filter {
                if case .outcomes(id, _) = $0.name { true } else { false }
            }
            let size = try System.status(ofFileAt: route.file.path).map { Int($0.st_size) }
            let isShown = present.contains { $0.path == path && $0.size == size }
            let time = now()
            // Content that is wrong although it has the right size is noticed by its lack of effect.
            let isIneffective =
                !route.record.outcomes.isEmpty
                && time.subtractingSaturating(published[id] ?? startedAt) > Self.effectDelay
            if !isShown || isIneffective {
                try store.upload(route.file.bytes(), as: path)
                published[id] = time
            }
            let others = present.map(\.path).filter { $0 != path }
            if !others.isEmpty { try store.delete(others) }
        }
    }

    // MARK: Snapshot files

    /// Uploads the snapshot files that differ from those in the store (rule Z11).
    private func publishSnapshots(_ objects: [StoreObject]) throws -> TravelProblem? {
        var problem: TravelProblem?
        for path in snapshots {
            let name = (path as NSString).lastPathComponent
            guard let copy = try SnapshotCopy(at: path, followsLinks: true) else {
                problem = TravelProblem(cause: .incompleteSnapshot, detail: path)
                continue
            }
            let present = objects.compactMap { object -> (snapshot: StoredSnapshot, size: Int)? in
                guard case .snapshot(let snapshot) = object.name, snapshot.name == name else { return nil }
                return (snapshot, object.size)
            }
            let newest = present.max { $0.snapshot.number < $1.snapshot.number }
            var kept = newest?.snapshot
            if newest?.snapshot.sum != copy.sum || newest?.size != copy.bytes.count {
                let next = StoredSnapshot(number: (newest?.snapshot.number ?? 0) + 1, sum: copy.sum, name: name)
                // The file may be replaced meanwhile, so what was read is uploaded.
                try store.upload(copy.bytes, as: next.path)
                kept = next
            }
            let others = present.map(\.snapshot).filter { $0 != kept }.map(\.path)
            if !others.isEmpty { try store.delete(others) }
        }
        return problem
    }
}

extension ShippedList {
    var ids: Set<UUID> { Set(commands.map(\.id)).union(questions) }
}

extension OutboxCollector.Route {
    /// The number of listed commands whose outcome is not known.
    fileprivate var undecided: Int {
        let decided = Set(record.outcomes.map(\.id))
        return list?.commands.count { !decided.contains($0.id) } ?? record.handedOver.count
    }
}
