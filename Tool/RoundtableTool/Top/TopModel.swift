import Foundation
import Roundtable
import RoundtableCore
import RoundtableToolSupport

/// The state of the live view: the last two samples, and what its user has chosen. It is pure: keys and samples come in, and lines of
/// text go out (`TopScreen`).
struct TopModel: Sendable {
    enum Order: String, CaseIterable, Sendable {
        case commits = "commits/s"
        case waiting = "waits"
        case name
        case pid
        case age
    }

    enum Action: Equatable, Sendable {
        case none, redraw, quit
    }

    private(set) var sample: TopSample?
    /// The last sequence of the sample before; nil at the first sample.
    private var sequenceBefore: UInt64?
    private(set) var rates = TopRates()
    private(set) var order = Order.commits
    private(set) var isReversed = false
    private(set) var isPaused = false
    private(set) var showsHelp = false
    /// Only participants and changes with this text in their names are shown.
    private(set) var filter = ""
    /// Whether the filter is being typed.
    private(set) var isTyping = false
    /// The number of participants that are scrolled away.
    private(set) var scroll = 0
    /// In seconds.
    let interval: Double

    init(interval: Double = 1) { self.interval = interval }

    mutating func add(_ new: TopSample) {
        rates = sample.map { TopRates(from: $0, to: new) } ?? TopRates()
        sequenceBefore = sample?.commits?.lastSequence
        sample = new
    }

    // MARK: Keys

    mutating func handle(_ key: TerminalKey) -> Action {
        if isTyping { return type(key) }
        if showsHelp, key != .character("q") {
            showsHelp = false
            return .redraw
        }
        switch key {
        case .character("q"): return .quit
        case .character("p"), .character(" "): isPaused.toggle()
        case .character("s"):
            let all = Order.allCases
            order = all[(all.firstIndex(of: order)! + 1) % all.count]
        case .character("r"): isReversed.toggle()
        case .character("/"): isTyping = true
        case .escape: filter = ""
        case .character("h"), .character("?"): showsHelp = true
        case .down, .character("j"): scroll = min(scroll + 1, max(0, participants.count - 1))
        case .up, .character("k"): scroll = max(0, scroll - 1)
        default: return .none
        }
        return .redraw
    }

    private mutating func type(_ key: TerminalKey) -> Action {
        switch key {
        case .character(let character): filter.append(character)
        case .backspace: _ = filter.popLast()
        case .enter: isTyping = false
        case .escape: (filter, isTyping) = ("", false)
        default: return .none
        }
        scroll = 0
        return .redraw
    }

    // MARK: What is shown

    /// The participants that the filter admits, in the chosen order.
    var participants: [ParticipantStatus] {
        let admitted = (sample?.status.participants ?? []).filter { admits($0.author) || admits($0.pidText) }
        // Participants that are equal in the chosen order keep an order of their own, so that lines do not jump.
        let sorted = admitted.sorted { ($0.author, $0.pid) < ($1.author, $1.pid) }.enumerated().sorted { left, right in
            if precedes(left.element, right.element) { return true }
            if precedes(right.element, left.element) { return false }
            return left.offset < right.offset
        }.map(\.element)
        return isReversed ? sorted.reversed() : sorted
    }

    private func precedes(_ left: ParticipantStatus, _ right: ParticipantStatus) -> Bool {
        switch order {
        case .commits:
            rates.commits(of: left)?.perSecond ?? -1 > rates.commits(of: right)?.perSecond ?? -1
        case .waiting: left.waiting ?? .seconds(-1) > right.waiting ?? .seconds(-1)
        case .name: left.author < right.author
        case .pid: left.pid < right.pid
        case .age: left.joinedAt < right.joinedAt
        }
    }

    /// The last changes that the filter admits, the newest first.
    var changes: [RecentCommits.Commit] {
        (sample?.commits?.commits ?? []).filter { admits($0.author ?? "") || admits($0.tables.description) }
    }

    /// The changes since the sample before, the newest first; all of them at the first sample.
    var newChanges: [RecentCommits.Commit] {
        // A ring that was made anew begins with 1 again.
        let before = sequenceBefore.flatMap { $0 <= sample?.commits?.lastSequence ?? 0 ? $0 : nil } ?? 0
        return changes.filter { $0.sequence > before }
    }

    /// Changes in a row of one participant to the same tables, as one with their number.
    var groupedChanges: [(change: RecentCommits.Commit, count: Int)] {
        var groups: [(change: RecentCommits.Commit, count: Int)] = []
        for change in changes {
            if let last = groups.last, (last.change.author, last.change.pid) == (change.author, change.pid),
                last.change.tables == change.tables
            {
                groups[groups.count - 1].count += 1
            } else {
                groups.append((change, 1))
            }
        }
        return groups
    }

    /// The participants that wait for the turn, the one that has waited longest first.
    var queue: [ParticipantStatus] {
        (sample?.status.participants ?? []).filter { $0.waiting != nil && !$0.hasTurn && $0.liveness != .dead }
            .sorted { $0.waiting ?? .zero > $1.waiting ?? .zero }
    }

    private func admits(_ text: String) -> Bool {
        filter.isEmpty || text.lowercased().contains(filter.lowercased())
    }
}
