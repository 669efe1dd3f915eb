import Foundation
import RoundtableTestSupport

/// One of the states that a power cut may leave: the certain content of files and folders, and some of the changes that are pending.
struct CrashState {
    /// What a disk writes as a whole, in bytes.
    static let sectorSize = 512

    /// The event after which the power is cut, and the number of the choice.
    struct Name: Hashable, Codable, CustomStringConvertible {
        var event: Int
        var variant: Int

        var description: String { "\(event).\(variant)" }

        init(event: Int, variant: Int) { (self.event, self.variant) = (event, variant) }

        init?(_ text: String) {
            let parts = text.split(separator: ".").compactMap { Int($0) }
            guard parts.count == 2 else { return nil }
            self.init(event: parts[0], variant: parts[1])
        }
    }

    let name: Name
    /// The content of files by their paths below the folder. Companions are among them.
    private(set) var files: [String: [UInt8]] = [:]
    private(set) var folders: [String] = []
    /// What the power cut has left of what was pending, for people.
    private(set) var description: String
    /// A hash of all but the companions. These are arbitrary, and would make each state another one.
    private(set) var fingerprint: UInt64 = 0

    /// Which pending changes reach the disk.
    private enum Choice: CaseIterable {
        case none, all, allButOne, onlyTheLast, prefix, prefixAndTorn, prefixAndSome, rarely, half, mostly
    }

    init(_ model: DiskModel, _ name: Name, seed: UInt64, hash: ([UInt8], UInt64) -> UInt64) {
        self.name = name
        var random = SeededGenerator(seed: seed ^ (UInt64(name.event) << 20) ^ UInt64(name.variant))
        _ = random.next()
        let choices = Choice.allCases
        let choice = name.variant < 2 ? choices[name.variant] : choices.randomElement(using: &random)!

        // Folders first: what has no name need not be made.
        let isOrdered = Bool.random(using: &random)
        let names = Self.kept(model, isOrdered: isOrdered, choice, &random)
        let folderTree = names.folders
        var paths: [(path: String, inode: UInt64)] = []
        Self.walk(
            model.trace.rootInode,
            "",
            folderTree,
            Set(model.folders.keys).union(folderTree.keys),
            &paths,
            &folders
        )

        let pending = model.writes
        let cut = Int.random(in: 0...pending.count, using: &random)
        let special = pending.isEmpty ? 0 : Int.random(in: 0..<pending.count, using: &random)
        var applied = 0
        var torn = 0
        var contents: [UInt64: [UInt8]] = [:]
        for (position, write) in pending.enumerated() {
            let fate: Fate =
                switch choice {
                case .none: .dropped
                case .all: .applied
                case .allButOne: position == special ? .random([.dropped, .torn], &random) : .applied
                case .onlyTheLast: position == pending.count - 1 ? .random([.applied, .torn], &random) : .dropped
                case .prefix: position < cut ? .applied : .dropped
                case .prefixAndTorn: position < cut ? .applied : position == cut ? .torn : .dropped
                case .prefixAndSome: position < cut ? .applied : .random([.applied, .dropped, .torn], &random)
                case .rarely: .random([.applied, .torn] + [Fate](repeating: .dropped, count: 8), &random)
                case .half: .random([.applied, .dropped, .applied, .dropped, .torn], &random)
                case .mostly: .random([.dropped, .torn] + [Fate](repeating: .applied, count: 14), &random)
                }
            if fate == .dropped { continue }
            var content = contents.removeValue(forKey: write.inode) ?? model.files[write.inode] ?? []
            if fate == .applied {
                applied += 1
                model.apply(write.change, to: &content)
            } else if case .write = write.change {
                torn += 1
                // Whole pages of 4,096 bytes, or sectors of 512.
                let size = Bool.random(using: &random) ? 4096 : Self.sectorSize
                let word = random.next()
                model.apply(write.change, to: &content) { offset in (word >> UInt64(offset / size % 64)) & 1 == 1 }
            }
            contents[write.inode] = content
        }
        description =
            "\(choice), \(applied) of \(pending.count) writes applied, \(torn) torn, "
            + "\(names.kept) of \(model.folderChanges.count) folder changes kept (\(isOrdered ? "in order" : "any"))"

        var fingerprint: UInt64 = 0
        for (path, inode) in paths.sorted(by: { $0.path < $1.path }) {
            if model.isCompanion(inode) {
                files[path] = Self.companion(model, inode, contents[inode] ?? model.files[inode] ?? [], &random)
                continue
            }
            let content = contents[inode] ?? model.files[inode] ?? []
            fingerprint = hash(content, hash([UInt8](path.utf8), fingerprint))
            files[path] = content
        }
        self.fingerprint = fingerprint
    }

    private enum Fate: Equatable {
        case dropped, applied, torn

        static func random(_ fates: [Fate], _ random: inout SeededGenerator) -> Fate {
            fates.randomElement(using: &random)!
        }
    }

    /// The folders after the power cut.
    ///
    /// - parameter isOrdered: whether the file system has a journal, which keeps changes of folders in their order and is written by
    ///   any sync, such as ext4. If not, each change that no sync of its folder covers may be kept or lost by itself, as POSIX says.
    private static func kept(
        _ model: DiskModel,
        isOrdered: Bool,
        _ choice: Choice,
        _ random: inout SeededGenerator
    ) -> (folders: DiskModel.Folders, kept: Int) {
        let pending = model.folderChanges
        let cut = Int.random(in: 0...pending.count, using: &random)
        var kept: [DiskModel.FolderChange] = []
        for (position, change) in pending.enumerated() {
            let isKept: Bool
            if isOrdered {
                isKept = change.event < model.journaled || choice == .all || (choice != .none && position < cut)
            } else {
                isKept =
                    switch choice {
                    case .none: false
                    case .all: true
                    case .allButOne, .mostly: Int.random(in: 0..<8, using: &random) != 0
                    case .rarely, .onlyTheLast: Int.random(in: 0..<8, using: &random) == 0
                    default: Bool.random(using: &random)
                    }
            }
            if isKept { kept.append(change.change) }
        }
        var folders = model.folders
        DiskModel.apply(kept, to: &folders)
        return (folders, kept.count)
    }

    private static func walk(
        _ folder: UInt64,
        _ prefix: String,
        _ tree: DiskModel.Folders,
        _ isFolder: Set<UInt64>,
        _ paths: inout [(path: String, inode: UInt64)],
        _ folders: inout [String]
    ) {
        for (name, inode) in tree[folder] ?? [:] {
            if isFolder.contains(inode) {
                folders.append(prefix + name)
                walk(inode, prefix + name + "/", tree, isFolder, &paths, &folders)
            } else {
                paths.append((prefix + name, inode))
            }
        }
    }

    /// Arbitrary old content of a file that processes map: what was written to it by calls, or pages of the last two samples.
    private static func companion(
        _ model: DiskModel,
        _ inode: UInt64,
        _ written: [UInt8],
        _ random: inout SeededGenerator
    ) -> [UInt8] {
        guard let samples = model.samples[inode], Int.random(in: 0..<4, using: &random) != 0 else { return written }
        var content = [UInt8](model.trace.bytes[samples[0]])
        let word = random.next()
        for samples in samples.dropFirst() {
            let newer = model.trace.bytes[samples]
            for page in stride(from: 0, to: newer.count, by: 4096) where (word >> UInt64(page / 4096 % 64)) & 1 == 1 {
                let end = min(page + 4096, newer.count)
                DiskModel.extend(&content, to: end)
                content.replaceSubrange(page..<end, with: newer[newer.startIndex + page..<newer.startIndex + end])
            }
        }
        return content
    }

    /// Writes the state into an empty folder.
    func write(into folder: String) throws {
        for path in folders.sorted() {
            guard mkdir("\(folder)/\(path)", 0o777) == 0 else { throw TestKitError("mkdir \(path): \(errno)") }
        }
        for (path, content) in files {
            let descriptor = open("\(folder)/\(path)", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
            guard descriptor >= 0 else { throw TestKitError("open \(path): \(errno)") }
            defer { close(descriptor) }
            let count = content.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
            guard count == content.count else { throw TestKitError("write \(path): \(errno)") }
        }
    }
}
