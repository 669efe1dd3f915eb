import GRDB
import Roundtable

/// Checks the changes that a view reports.
package enum ViewWitness {
    /// Checks that the changes since earlier contents lead from these to the present ones.
    ///
    /// - returns: the differences; empty when there are none.
    package static func discrepancies(
        _ view: MaterializedView,
        since contents: inout ViewContents,
        _ db: Database
    ) throws -> [String] {
        let old = contents
        let changes = try view.changes(since: &contents, in: db)
        let now = try view.contents(in: db)
        if contents != now { return ["\(view.name): \(contents.groups) instead of \(now.groups)"] }
        let applied = changes.applied(to: old.groups, giving: now.groups)
        return applied == now.groups ? [] : ["\(view.name): \(changes) lead to \(applied) instead of \(now.groups)"]
    }
}

extension ViewChanges {
    /// Applies the changes as a list on the screen does: it removes deleted and moved rows, then inserts new and moved rows.
    package func applied(to old: [ViewContents.Group], giving new: [ViewContents.Group]) -> [ViewContents.Group] {
        var rows = old.map { $0.keys.map { Optional($0) } }
        for place in deleted + moved.map(\.from) { rows[place.group][place.row] = nil }
        var groups: [ViewContents.Group] = []
        for (index, group) in old.enumerated() where !deletedGroups.contains(index) {
            groups.append(.init(name: group.name, keys: rows[index].compactMap { $0 }))
        }
        for index in insertedGroups.sorted() {
            groups.insert(.init(name: new[index].name, keys: new[index].keys), at: index)
        }
        let arrivals =
            (inserted.map { ($0, new[$0.group].keys[$0.row]) } + moved.map { ($0.to, $0.key) })
            .filter { !insertedGroups.contains($0.0.group) }.sorted { $0.0 < $1.0 }
        for (place, key) in arrivals where place.row <= groups[place.group].keys.count {
            groups[place.group].keys.insert(key, at: place.row)
        }
        return groups
    }
}
