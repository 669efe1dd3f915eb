import Foundation
import Roundtable
import RoundtableToolSupport

/// The content of an outbox, in the order in which it is shown. Only a part of it is in memory at a time, because it may be large.
final class OutboxItems {
    enum Item {
        case waiting(WaitingCommand)
        case deadLetter(DeadLetter)
        /// A file that is not a waiting command.
        case file(OutboxFile)

        /// The id of the command; nil for a file.
        var id: UUID? {
            switch self {
            case .waiting(let command): command.id
            case .deadLetter(let letter): letter.id
            case .file: nil
            }
        }

        var path: String? {
            switch self {
            case .waiting(let command): command.path
            case .deadLetter: nil
            case .file(let file): file.path
            }
        }
    }

    let place: OutboxPlace
    /// The service that applies the waiting commands; nil when it is not known.
    let service: OutboxService?
    /// The reason why the database could not be read.
    private(set) var problem: String?
    private var database: SharedDatabase?

    /// - throws: `ToolError` when there is neither a database nor an outbox.
    init(_ place: OutboxPlace, as author: String) throws {
        self.place = place
        service = place.service()
        if let url = place.existingDatabase {
            do {
                let options = place.options()
                let state = try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: author, options: options)
                if case .available(let found) = state { database = found }
            } catch {
                problem = ToolError.line(for: error)
            }
        } else if !place.files.hasFolder {
            throw ToolError(
                "\(place.name): there is no such database, and no outbox for one (\(place.files.path)). Check the path."
            )
        }
    }

    deinit { try? database?.close() }

    /// Calls `body` with each item: first dead letters, then waiting commands, then files that are not waiting commands.
    func forEach(_ body: (Item) -> Void) throws {
        do {
            try database?.forEachDeadLetter { body(.deadLetter($0)) }
        } catch {
            problem = ToolError.line(for: error)
            database = nil
        }
        var strange: [(path: String, reason: String)] = []
        try place.files.walk(asking: database).run { find in
            switch find {
            case .waiting(let command): body(.waiting(command))
            case .damaged(let path, let reason), .unreadable(let path, let reason): strange.append((path, reason))
            }
        }
        func name(_ path: String) -> String { (path as NSString).lastPathComponent }
        strange.sort { (name($0.path), $0.path) < (name($1.path), $1.path) }
        for (path, reason) in strange { body(.file(place.files.file(at: path, reason: reason))) }
    }

    /// Finds the item by the beginning of its id, the beginning of its file's name, or its path.
    ///
    /// - throws: `ToolError` when no item or several items match.
    func find(_ text: String) throws -> Item {
        let path = URL(fileURLWithPath: text).resolvingSymlinksInPath().path
        let id = text.uppercased()
        var first: Item?
        var names: Set<String> = []
        try forEach { item in
            let isMeant =
                item.id?.uuidString.hasPrefix(id) == true
                || item.path.map { ($0 as NSString).lastPathComponent.hasPrefix(text) || $0 == path } == true
            guard isMeant else { return }
            // Of a dead letter and its file, if that still exists, the dead letter comes first.
            first = first ?? item
            names.insert(item.id?.uuidString ?? item.path ?? "")
        }
        guard let first else { throw try notFound(text, path) }
        guard names.count == 1 else {
            throw ToolError("\(place.name): \(names.count) commands or files begin with '\(text)'. Give more of it.")
        }
        return first
    }

    private func notFound(_ text: String, _ path: String) throws -> ToolError {
        let foreign = try place.files.foreignNames()
        let name = (path as NSString).lastPathComponent
        let isThere = FileManager.default.fileExists(atPath: path)
        let isInside = (path as NSString).deletingLastPathComponent == place.files.commandsPath
        if foreign.contains(name), isInside || !isThere {
            return ToolError(
                """
                \(place.files.commandsPath)/\(name): not a command file: commands have names such as \
                widget.0000000001.5f0c2a91.000000000012.command. Owners leave it alone; remove it if it is not needed.
                """
            )
        }
        if isThere {
            return ToolError(
                "\(path): not a file of this outbox, which is \(place.files.path). To see what is there: \(place.look)"
            )
        }
        let unasked = problem == nil ? "" : " What was set aside could not be read: \(problem ?? "")"
        return ToolError(
            """
            \(place.name): no such command: no id, and no file of the outbox, begins with '\(text)'. Perhaps it was applied meanwhile. To see what is \
            there: \(place.look)\(unasked)
            """
        )
    }
}

extension OutboxFile {
    var state: String {
        switch kind {
        case .damaged: "damaged"
        case .newer: "newer"
        case .unreadable: "unreadable"
        case .whole: "moved away"
        }
    }

    var reason: String {
        switch kind {
        case .damaged(let reason): reason
        case .newer(let format): "of format \(format), which is newer than this program"
        case .unreadable(let reason): reason
        case .whole: "a whole command now"
        }
    }

    var next: String {
        switch kind {
        case .damaged where isSetAside: "nothing of it is applied: 'drop' removes it"
        case .damaged: "a running owner moves it away; 'drop' removes it"
        case .newer:
            isSetAside
                ? "update this program, to see what it is; 'drop' removes it"
                : "it waits, with its sender's later ones, for an owner with a newer Roundtable: update the program; or 'drop' it"
        case .unreadable: "its sender's later ones wait: give the owner and this user the permission; or 'drop' it"
        case .whole: "'retry' puts it back into the queue"
        }
    }
}
