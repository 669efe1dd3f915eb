import GRDB

/// Which rows a view had at one moment: what changes are told against.
public struct ViewSnapshot: Sendable, Equatable {
    /// A group, with the keys of its rows in order.
    public struct Group: Sendable, Equatable {
        public var name: DatabaseValue
        public var keys: [ViewKey]

        public static func == (one: Self, other: Self) -> Bool {
            ExactValue(one.name) == ExactValue(other.name) && one.keys == other.keys
        }

        public init(name: DatabaseValue, keys: [ViewKey]) {
            self.name = name
            self.keys = keys
        }
    }

    /// Those that have rows, in their order.
    public internal(set) var groups: [Group]
    /// Of the extension, and the last change that it includes.
    var identity: String
    var last: LastChange
    /// The most rows of each group; nil for all.
    let limit: Int?

    /// The end of a view's log.
    struct LastChange: Sendable, Equatable {
        /// 0 before the first one.
        var sequence: Int64 = 0
        var stamp: Int64 = 0
    }
}

/// What has become of a view between two moments, as a list that animates wants to be told: deletions and the origins of moves by places
/// before, insertions and the destinations of moves by places after.
public struct ViewChanges: Sendable, Equatable {
    /// A place in the list: which group, which row of it.
    public struct Place: Hashable, Sendable {
        public var group: Int
        public var row: Int

        public init(group: Int, row: Int) {
            self.group = group
            self.row = row
        }
    }

    public struct Move: Hashable, Sendable {
        public var key: ViewKey
        public var from: Place
        public var to: Place
    }

    /// Places before of groups that have no rows any more. Their rows are not told one by one, but for those that have moved to another group.
    public var deletedGroups: [Int] = []
    /// Places after of groups that had none.
    public var insertedGroups: [Int] = []
    /// Places before.
    public var deleted: [Place] = []
    /// Places after.
    public var inserted: [Place] = []
    public var moved: [Move] = []
    /// Rows that may look different: places after, moved ones among them.
    public var updated: [Place] = []

    public var isEmpty: Bool {
        deletedGroups.isEmpty && insertedGroups.isEmpty && deleted.isEmpty && inserted.isEmpty && moved.isEmpty
            && updated.isEmpty
    }
}

extension ViewChanges {
    /// - parameter touched: rows that may have been changed; nil when it may be any. Rows that are not among them are in the same order,
    ///   before and after.
    init(from old: [ViewSnapshot.Group], to new: [ViewSnapshot.Group], touched: Set<ViewKey>?) {
        let oldNames = Dictionary(old.enumerated().map { (ExactValue($1.name), $0) }) { first, _ in first }
        let newNames = Dictionary(new.enumerated().map { (ExactValue($1.name), $0) }) { first, _ in first }
        func isGone(_ group: Int) -> Bool { newNames[ExactValue(old[group].name)] == nil }
        func isNew(_ group: Int) -> Bool { oldNames[ExactValue(new[group].name)] == nil }
        deletedGroups = old.indices.filter(isGone)
        insertedGroups = new.indices.filter(isNew)
        // What is gone from its group, and what has come to one: the same key twice has moved between groups.
        var gone: [ViewKey: Place] = [:]
        var come: [ViewKey: Place] = [:]
        for (index, group) in old.enumerated() {
            guard let newIndex = newNames[ExactValue(group.name)] else {
                for (row, key) in group.keys.enumerated() { gone[key] = Place(group: index, row: row) }
                continue
            }
            add(group.keys, index, new[newIndex].keys, newIndex, touched, &gone, &come)
        }
        for index in insertedGroups {
            for (row, key) in new[index].keys.enumerated() { come[key] = Place(group: index, row: row) }
        }
        for (key, from) in gone {
            if let to = come.removeValue(forKey: key) {
                moved.append(Move(key: key, from: from, to: to))
                updated.append(to)
            } else if !isGone(from.group) {
                deleted.append(from)
            }
        }
        inserted = come.values.filter { !isNew($0.group) }
        deleted.sort()
        inserted.sort()
        updated.sort()
        moved.sort { $0.from < $1.from }
    }

    private mutating func add(
        _ old: [ViewKey],
        _ oldGroup: Int,
        _ new: [ViewKey],
        _ newGroup: Int,
        _ touched: Set<ViewKey>?,
        _ gone: inout [ViewKey: Place],
        _ come: inout [ViewKey: Place]
    ) {
        // Told at once where it is the same list, as that of a group is in which nothing has moved.
        if old == new {
            if touched?.isEmpty == true { return }
            for (row, key) in new.enumerated() where touched?.contains(key) ?? true {
                updated.append(Place(group: newGroup, row: row))
            }
            return
        }
        // Keys are different, but for texts that GRDB does not read to their end.
        let oldRows = Dictionary(old.enumerated().map { ($1, $0) }) { first, _ in first }
        var stays = Set<ViewKey>()
        var common: [(key: ViewKey, from: Int, to: Int)] = []
        for (to, key) in new.enumerated() {
            guard let from = oldRows[key] else {
                come[key] = Place(group: newGroup, row: to)
                continue
            }
            stays.insert(key)
            common.append((key, from, to))
            if touched?.contains(key) ?? true { updated.append(Place(group: newGroup, row: to)) }
        }
        for (from, key) in old.enumerated() where !stays.contains(key) {
            gone[key] = Place(group: oldGroup, row: from)
        }
        // The longest part of them that is in the same order stays where it is, with all that was not touched.
        let kept = Self.longestRise(common.map(\.from)) { index in
            touched?.contains(common[index].key) == false
        }
        for (index, row) in common.enumerated() where !kept.contains(index) {
            moved.append(
                Move(
                    key: row.key,
                    from: Place(group: oldGroup, row: row.from),
                    to: Place(group: newGroup, row: row.to)
                )
            )
        }
    }

    /// Indexes of a longest rising part of a list that has all the fixed ones, which rise.
    static func longestRise(_ values: [Int], isFixed: (Int) -> Bool) -> Set<Int> {
        var kept: Set<Int> = []
        var segment: [Int] = []
        var lower = -1
        func close(below upper: Int) {
            let fitting = segment.filter { values[$0] > lower && values[$0] < upper }
            kept.formUnion(rise(fitting, values))
            segment = []
        }
        for index in values.indices {
            if isFixed(index) {
                close(below: values[index])
                kept.insert(index)
                lower = values[index]
            } else {
                segment.append(index)
            }
        }
        close(below: .max)
        return kept
    }

    /// By patience sorting.
    private static func rise(_ indexes: [Int], _ values: [Int]) -> [Int] {
        var tails: [Int] = []
        var previous: [Int: Int] = [:]
        for index in indexes {
            var (low, high) = (0, tails.count)
            while low < high {
                let middle = (low + high) / 2
                if values[tails[middle]] < values[index] { low = middle + 1 } else { high = middle }
            }
            if low > 0 { previous[index] = tails[low - 1] }
            if low == tails.count { tails.append(index) } else { tails[low] = index }
        }
        var result: [Int] = []
        var next = tails.last
        while let index = next {
            result.append(index)
            next = previous[index]
        }
        return result
    }
}

extension ViewChanges.Place: Comparable {
    public static func < (one: Self, other: Self) -> Bool { (one.group, one.row) < (other.group, other.row) }
}
