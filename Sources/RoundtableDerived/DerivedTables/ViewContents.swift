import GRDB

/// The rows of a view at one moment. Changes are computed from one moment to the next.
public struct ViewContents: Sendable, Equatable {
    /// A group, with the keys of its rows in order.
    public struct Group: Sendable, Equatable {
        public var name: DatabaseValue
        public var keys: [ViewKey]

        public static func == (one: Self, other: Self) -> Bool {
            ExactValue(one.name) == ExactValue(other.name) && one.keys == other.keys
        }

        package init(name: DatabaseValue, keys: [ViewKey]) {
            self.name = name
            self.keys = keys
        }
    }

    /// The groups that have rows, in their order.
    public internal(set) var groups: [Group]
    /// The identity of the stored derived table. `last` is the last change that the contents include.
    var identity: String
    var last: LastChange
    /// The maximum number of rows per group, or nil for all.
    let limit: Int?

    /// The last entry of a view's log.
    struct LastChange: Sendable, Equatable {
        /// The number of the entry, or 0 if the log is empty.
        var sequence: Int64 = 0
        var stamp: Int64 = 0
    }
}

/// The changes of a view between two moments, in the form that an animated list needs. Deletions and the origins of moves are places in the
/// old list. Insertions and the destinations of moves are places in the new list.
public struct ViewChanges: Sendable, Equatable {
    /// A place in the list: the index of a group, and the index of a row in that group.
    public struct Place: Hashable, Sendable {
        public var group: Int
        public var row: Int

        package init(group: Int, row: Int) {
            self.group = group
            self.row = row
        }
    }

    public struct Move: Hashable, Sendable {
        public var key: ViewKey
        public var from: Place
        public var to: Place
    }

    /// The indexes, in the old list, of the groups that have no rows any more. Their rows are not listed individually, except the rows that
    /// moved to another group.
    public var deletedGroups: [Int] = []
    /// The indexes, in the new list, of the groups that had no rows. Their rows are not listed individually, except the rows that moved
    /// from another group.
    public var insertedGroups: [Int] = []
    /// The deleted rows, as places in the old list.
    public var deleted: [Place] = []
    /// The inserted rows, as places in the new list.
    public var inserted: [Place] = []
    public var moved: [Move] = []
    /// The rows whose content may have changed, as places in the new list. Moved rows can be among them.
    public var updated: [Place] = []

    public var isEmpty: Bool {
        deletedGroups.isEmpty && insertedGroups.isEmpty && deleted.isEmpty && inserted.isEmpty && moved.isEmpty
            && updated.isEmpty
    }
}

extension ViewChanges {
    /// - parameter touched: the rows that may have been changed, or nil if any row may have been. All other rows have the same order in
    ///   both lists.
    init(from old: [ViewContents.Group], to new: [ViewContents.Group], touched: Set<ViewKey>?) {
        let oldNames = Dictionary(old.enumerated().map { (ExactValue($1.name), $0) }) { first, _ in first }
        let newNames = Dictionary(new.enumerated().map { (ExactValue($1.name), $0) }) { first, _ in first }
        func isGone(_ group: Int) -> Bool { newNames[ExactValue(old[group].name)] == nil }
        func isNew(_ group: Int) -> Bool { oldNames[ExactValue(new[group].name)] == nil }
        deletedGroups = old.indices.filter(isGone)
        insertedGroups = new.indices.filter(isNew)
        // The rows that have left a group, and the rows that have entered one. A key that is in both has moved between groups.
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
        // A list that is the same needs no comparison by row. In most groups, no row has moved.
        if old == new {
            if touched?.isEmpty == true { return }
            for (row, key) in new.enumerated() where touched?.contains(key) ?? true {
                updated.append(Place(group: newGroup, row: row))
            }
            return
        }
        // Keys are unique, except texts that GRDB does not read to their end.
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
        // The longest subsequence that is in the same order stays in place. It includes all rows that were not touched.
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

    /// Returns the indexes of a longest increasing subsequence that contains all fixed elements. The fixed elements must be increasing.
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

    /// Finds a longest increasing subsequence by patience sorting.
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
