import Foundation
import Roundtable
import RoundtableDelivery
import RoundtableFiles
import RoundtableKernel
import RoundtableToolSupport

/// Moves the commands of an outbox to a store, and brings outcomes and snapshot files back (rules Z3–Z5, Z8, Z9, Z11). For one thread.
final class OutboxShipper {
    private let folder: OutboxFolder
    private let store: any OutboxStore
    /// Where snapshot files go; nil: they are not wanted.
    private let snapshotFolder: String?
    private let complain: (String) -> Void
    private let now: () -> Nanoseconds
    private let file: TravelFile<ShippedList>

    /// The last list that this folder has written; nil before the first.
    private var own: (list: ShippedList, mark: StoreMark)?
    private var hasRead = false
    /// The route of the next list, if `own` has none.
    private var newRoute = UUID()
    /// The commands that were found whole, by name. Files are never changed.
    private var known: [CommandFileName: ShippedList.Command] = [:]
    /// The records of outcomes that were read.
    private var records: Set<StoreMark> = []
    /// The names that the last record misses.
    private var missing: Set<String> = []
    /// When a command was uploaded the last time.
    private var uploads: [String: Nanoseconds] = [:]
    /// The highest number that was taken of each snapshot file.
    private var taken: [String: UInt64] = [:]
    private var cleanedAt: Nanoseconds?
    private var listedAt: Nanoseconds

    /// After this time, what a listing still does not show is uploaded again (rule Z12).
    private static let listingDelay: Nanoseconds = 10_000_000_000
    /// After this time, a list that has not become shorter is uploaded again.
    private static let effectDelay: Nanoseconds = 600_000_000_000
    private static let batch = 500

    init(
        _ folder: OutboxFolder,
        to store: any OutboxStore,
        snapshotFolder: String? = nil,
        now: @escaping () -> Nanoseconds = { MonotonicClock.now },
        complain: @escaping (String) -> Void = { _ in }
    ) {
        self.folder = folder
        self.store = store
        self.snapshotFolder = snapshotFolder
        self.now = now
        self.complain = complain
        listedAt = now()
        file = TravelFile(at: folder.shipListPath, as: "ship")
    }

    private var route: UUID { own?.list.route ?? newRoute }

    /// - throws: ``TravelProblem``; errors of the store and of the system.
    func round() throws -> TravelRound {
        var round = TravelRound()
        try folder.make()
        try folder.removeAbandonedArrivals()
        clean()
        if !hasRead { own = try file.read().map { ($0.value, $0.mark) } }
        hasRead = true
        var objects = try store.list(["/routes/\(route)/**", "/snapshots/*"])
        if isCopied(objects) {
            complain("another outbox ships on route \(route), of which this one is a copy: a new route begins")
            own = nil
            newRoute = UUID()
            records = []
            uploads = [:]
            objects = try store.list(["/routes/\(route)/**", "/snapshots/*"])
        }
        var failure: (any Error)?
        do {
            round.decided = try takeOutcomes(objects)
        } catch {
            failure = error
        }
        try listCommands(&round)
        try upload(objects, &round)
        try deleteRemains(objects)
        do {
            try takeSnapshots(objects)
        } catch {
            failure = failure ?? error
        }
        if let failure { throw failure }
        return round
    }

    /// Whether another shipper uses the route (rule Z9).
    private func isCopied(_ objects: [StoreObject]) -> Bool {
        objects.contains {
            guard case .list(route, let mark) = $0.name else { return false }
            return own?.mark.isForeign(mark) ?? true
        }
    }

    private func clean() {
        let time = now()
        guard cleanedAt.map({ time.subtractingSaturating($0) > 3600 * 1_000_000_000 }) ?? true else { return }
        cleanedAt = time
        // What cannot be removed does no harm.
        try? folder.removeRemains(now: Date())
    }

    // MARK: Outcomes

    /// - returns: the number of commands that were removed.
    private func takeOutcomes(_ objects: [StoreObject]) throws -> Int {
        let new = objects.compactMap { object -> (String, StoreMark)? in
            guard case .outcomes(route, let mark) = object.name, !records.contains(mark) else { return nil }
            return (object.path, mark)
        }
        guard !new.isEmpty else { return 0 }
        return try folder.withArrivals { arrivals in
            try store.download(new.map(\.0), into: arrivals)
            var count = 0
            for (path, mark) in new.sorted(by: { $0.1.sequence < $1.1.sequence }) {
                // One that is not whole is downloaded again.
                guard let (record, found) = try TravelFile<RouteRecord>.read(path, in: arrivals), found == mark,
                    record.route == route
                else { continue }
                count += try apply(record)
                missing = Set(record.missing)
                records.insert(mark)
            }
            return count
        }
    }

    /// Answers questions, then removes what was decided (rule Z8).
    private func apply(_ record: RouteRecord) throws -> Int {
        let questions = Set(try folder.names(in: .questions) ?? [])
        // A sender that did not know whether it had submitted a command has submitted it again, with the same id.
        let names = Dictionary(grouping: own?.list.commands ?? [], by: \.id).mapValues { $0.map(\.name) }
        let access = try folder.access()
        var count = 0
        for outcome in record.outcomes {
            guard let decoded = outcome.decoded else { continue }
            if questions.contains(outcome.id.uuidString) {
                try OutboxQuestion(id: outcome.id, folder: folder).answer(decoded, access)
            }
            for name in names[outcome.id] ?? [] where try folder.remove(name, from: .commands) { count += 1 }
        }
        if count > 0 { listedAt = now() }
        if count > 0 { try folder.sync(.commands) }
        return count
    }

    // MARK: Commands

    /// Writes a list of what waits, if it differs from the last one (rules Z4, Z5).
    private func listCommands(_ round: inout TravelRound) throws {
        var list = ShippedList(route: route)
        let commands = try folder.open(.commands)
        let listing = try OutboxListing(commands)
        var found: [CommandFileName: ShippedList.Command] = [:]
        for sender in listing.commands.keys.sorted() {
            for name in listing.commands[sender] ?? [] {
                switch try known[name].map(Finding.command) ?? look(at: name, in: commands) {
                case .command(let command):
                    found[name] = command
                    list.commands.append(command)
                    continue
                case .nothing: continue
                case .obstacle(let problem): round.problem = problem
                }
                break
            }
        }
        known = found
        list.questions = (try folder.names(in: .questions) ?? [])
            .compactMap { name in UUID(uuidString: name).flatMap { $0.uuidString == name ? $0 : nil } }
            .sorted { $0.uuidString < $1.uuidString }
        round.waiting = list.commands.count
        guard list != own?.list else { return }
        if own == nil, list.commands.isEmpty, list.questions.isEmpty { return }
        own = (list, try file.write(list))
    }

    private enum Finding {
        case command(ShippedList.Command)
        case nothing
        /// Later commands of the sender wait.
        case obstacle(TravelProblem?)
    }

    private func look(at name: CommandFileName, in commands: OpenFolder) throws -> Finding {
        let path = folder.path(of: name)
        let content: CommandFile.Content?
        do {
            content = try CommandFile.read(name, in: commands, notOf: folder.databasePath)
        } catch {
            return .obstacle(
                TravelProblem(cause: .unreadableCommand, detail: ToolError.line(for: error).withoutFullStop)
            )
        }
        switch content {
        case nil: return .nothing
        case .command(let command):
            return .command(.init(name: "\(name)", id: command.id, size: command.bytes.count))
        case .newer(let format):
            return .obstacle(
                TravelProblem(cause: .newerCommand, detail: "\(path), format \(format)")
            )
        case .damaged(let reason, let isCutOff):
            guard let status = try commands.status(ofFile: "\(name)") else { return .nothing }
            let age = Date().timeIntervalSince1970 - Double(status.modificationTime) / 1e9
            if isCutOff, age < 5 { return .obstacle(nil) }
            try commands.renameFile("\(name)", to: "\(name)", in: folder.open(.damaged))
            complain("\(path): \(reason). It was moved to \(folder.path(of: .damaged))")
            return .nothing
        }
    }

    private func upload(_ objects: [StoreObject], _ round: inout TravelRound) throws {
        guard let own else { return }
        var sizes: [String: Int] = [:]
        for object in objects {
            if case .command(route, let name) = object.name { sizes[name] = object.size }
        }
        let time = now()
        let due = own.list.commands.filter { command in
            if sizes[command.name] == command.size, !missing.contains(command.name) { return false }
            // An object of another size is one that was cut off.
            if let size = sizes[command.name], size != command.size { return true }
            guard let last = uploads[command.name] else { return true }
            return time.subtractingSaturating(last) > Self.listingDelay
        }
        let batch = due.prefix(Self.batch).map(\.name)
        if !batch.isEmpty {
            try store.upload(batch, from: folder.open(.commands), to: StoreObject.commands(of: route))
            for name in batch { uploads[name] = time }
            round.moved = batch.count
            round.isBusy = due.count > batch.count
        }
        let path = StoreObject.list(own.mark, of: route)
        let size = try System.status(ofFileAt: file.path).map { Int($0.st_size) }
        let isShown = objects.contains { $0.path == path && $0.size == size }
        // Content that is wrong although it has the right size is noticed by its lack of effect.
        let isIneffective = !own.list.commands.isEmpty && time.subtractingSaturating(listedAt) > Self.effectDelay
        if !isShown || isIneffective {
            try store.upload(file.bytes(), as: path)
            listedAt = time
        }
    }

    /// Deletes what the list does not have (rule Z4).
    private func deleteRemains(_ objects: [StoreObject]) throws {
        guard let own else { return }
        let listed = Set(own.list.commands.map(\.name))
        uploads = uploads.filter { listed.contains($0.key) }
        let remains = objects.filter {
            switch $0.name {
            case .command(route, let name): !listed.contains(name)
            case .list(route, let mark): mark != own.mark
            case .remains(route): true
            default: false
            }
        }
        if !remains.isEmpty { try store.delete(remains.map(\.path)) }
    }

    // MARK: Snapshot files

    /// Brings snapshot files (rule Z11).
    private func takeSnapshots(_ objects: [StoreObject]) throws {
        guard let snapshotFolder else { return }
        var newest: [String: StoredSnapshot] = [:]
        for object in objects {
            guard case .snapshot(let snapshot) = object.name else { continue }
            if snapshot.number > newest[snapshot.name]?.number ?? 0 { newest[snapshot.name] = snapshot }
        }
        let new = newest.values.filter { $0.number > taken[$0.name] ?? 0 }.sorted { $0.name < $1.name }
        let wanted = try new.filter { snapshot in
            let isThere =
                try SnapshotCopy(at: "\(snapshotFolder)/\(snapshot.name)", followsLinks: false)?.sum == snapshot.sum
            if isThere { taken[snapshot.name] = snapshot.number }
            return !isThere
        }
        guard !wanted.isEmpty else { return }
        try folder.withArrivals { arrivals in
            try store.download(wanted.map(\.path), into: arrivals)
            for snapshot in wanted {
                guard let copy = try SnapshotCopy(snapshot.path, in: arrivals), copy.sum == snapshot.sum
                else { continue }
                try copy.put(at: "\(snapshotFolder)/\(snapshot.name)")
                taken[snapshot.name] = snapshot.number
            }
        }
    }
}
