import Foundation
import Roundtable
import RoundtableCore
import RoundtableToolSupport

/// The live view as lines of a given width, and at most a given number of them. It is pure.
struct TopScreen {
    let model: TopModel
    let width: Int
    /// nil: as many lines as there are.
    let height: Int?
    let clock: ClockText

    init(_ model: TopModel, width: Int, height: Int?, clock: ClockText = ClockText()) {
        self.model = model
        self.width = max(1, width)
        self.height = height.map { max(1, $0) }
        self.clock = clock
    }

    var lines: [StyledText] {
        guard let sample = model.sample else { return [] }
        let all = model.showsHelp ? help : content(sample)
        // The last line has the keys.
        let room = height.map { max(0, $0 - 1) }
        let shown = room.map { Array(all.prefix($0)) } ?? all
        let gap = room.map { max(0, $0 - shown.count) } ?? 0
        let footer = height == nil ? [] : [footer]
        return (shown + Array(repeating: StyledText(), count: gap) + footer).map { $0.fitted(to: width) }
    }

    // MARK: Room

    private static let fewestParticipants = 3
    private static let mostWarnings = 4
    private static let mostChanges = 8
    private static let fewestChanges = 3

    private func content(_ sample: TopSample) -> [StyledText] {
        var facts = [title(sample)] + TopFacts(model: model, width: width).lines(sample)
        let table = TopTable(model: model, width: width)
        let warnings = warnings(sample)
        let changes = Array(changes.prefix(height == nil ? .max : Self.mostChanges))
        guard let height else {
            return facts + [StyledText()] + table.lines(rows: nil) + warnings + section("LAST CHANGES", changes)
        }
        let wanted = model.participants.count
        // A few participants are shown before all that is said above them: those facts are one line each then, and the first ones.
        let forFacts = height - 1 - 2 - min(wanted, Self.fewestParticipants)
        if facts.count > forFacts {
            facts = [title(sample)] + TopFacts(model: model, width: width, isBrief: true).lines(sample)
            facts = Array(facts.prefix(max(1, forFacts)))
        }
        // The participants have what is left; but some of them are shown before warnings, and some changes before more of them.
        let room = height - 1 - facts.count - 2
        let sections = warnings.count + (changes.isEmpty ? 0 : min(changes.count, Self.fewestChanges) + 2)
        var rows = max(min(wanted, Self.fewestParticipants), min(wanted, room - sections))
        // Changes take three lines at least: an empty one, their title, and one change. Where there are fewer, the participants have them.
        if room - rows - warnings.count < 3 { rows = max(rows, min(wanted, room - warnings.count)) }
        let left = max(0, room - rows - warnings.count)
        return facts + [StyledText()] + table.lines(rows: rows) + warnings
            + section("LAST CHANGES", Array(changes.prefix(max(0, left - 2))))
    }

    private func section(_ title: String, _ lines: [StyledText]) -> [StyledText] {
        lines.isEmpty ? [] : [StyledText(), StyledText(title, .title)] + lines
    }

    // MARK: The lines

    private func title(_ sample: TopSample) -> StyledText {
        let name = (sample.status.path as NSString).lastPathComponent
        var text = StyledText(name, .title)
        text.append(" · \(clock.seconds(sample.date))")
        if model.isPaused { text.append(" · ") }
        if model.isPaused { text.append("paused", .warning) }
        if !model.filter.isEmpty, !model.isTyping { text.append(" · only '\(model.filter)'", .warning) }
        let order = "by \(model.order.rawValue)\(model.isReversed ? ", reversed" : "")"
        let count = model.participants.count.of("participant")
        for right in ["\(count) · \(order) · every \(model.interval.formatted()) s", "\(count) · \(order)", count] {
            let gap = width - text.width - right.displayWidth
            if gap >= 2 { return text + StyledText(String(repeating: " ", count: gap)) + StyledText(right, .dim) }
        }
        return text
    }

    private func warnings(_ sample: TopSample) -> [StyledText] {
        guard !sample.warnings.isEmpty else { return [] }
        let limit = height == nil ? Int.max : Self.mostWarnings
        var lines: [StyledText] = []
        for finding in sample.warnings {
            let style: TextStyle = finding.severity == .error ? .bad : .warning
            lines += finding.message.wrapped(to: width - 2).enumerated().map { index, line in
                StyledText((index == 0 ? "! " : "  ") + line, style)
            }
        }
        if lines.count > limit {
            lines = Array(lines.prefix(limit - 1))
            lines.append(StyledText("  … 'roundtable doctor' has the rest", .dim))
        }
        return [StyledText()] + lines
    }

    private var changes: [StyledText] {
        let groups = model.groupedChanges
        let names = groups.map { $0.change.author ?? "pid \($0.change.pid)" }
        let longest = names.map(\.displayWidth).max() ?? 0
        let nameWidth = max(4, min(longest, width / 3))
        return zip(groups, names).map { group, name in
            let (change, count) = group
            var text = StyledText(width < 50 ? clock.seconds(change.time) : clock.milliseconds(change.time), .dim)
            text.append("  \(name.fitted(to: nameWidth).padded(to: nameWidth))  \(change.tables)")
            if count > 1 { text.append(" ×\(count)", .dim) }
            return text
        }
    }

    private var footer: StyledText {
        if model.isTyping { return StyledText("only what contains: \(model.filter)▏", .selected) }
        let texts = [
            "q quit · p pause · s sort · r reverse · / filter · ↑↓ scroll · h help",
            "q quit · p pause · s sort · / filter · h help", "q quit · h help",
        ]
        return StyledText(texts.first { $0.displayWidth <= width } ?? "q", .dim)
    }

    private var help: [StyledText] {
        let keys = [
            ("q, Ctrl-C", "quit"), ("p, space", "pause, and continue"),
            ("s", "sort by the next of: \(TopModel.Order.allCases.map(\.rawValue).joined(separator: ", "))"),
            ("r", "reverse the order"), ("/", "show only what contains a text: Enter keeps it, Esc clears it"),
            ("↑ ↓, k j", "scroll the participants"), ("h, ?", "this help; any key ends it"),
        ]
        let notes = [
            "A dash is a rate that is not known yet: rates need two looks. ~ marks a rate that is counted from turns, since the ring of the last commits has no longer all of them.",
            "In the bar, \(TopBar.copied) is in the database file, and \(TopBar.left) is not; a letter is how far the read of that letter lets a checkpoint copy.",
        ]
        var lines = [StyledText("roundtable top", .title), StyledText()]
        for (key, what) in keys {
            let wrapped = what.wrapped(to: max(12, width - 13))
            lines += wrapped.enumerated().map { index, line in
                StyledText((index == 0 ? key : "").padded(to: 11), .title) + StyledText("  \(line)")
            }
        }
        for note in notes { lines += [StyledText()] + note.wrapped(to: width).map { StyledText($0) } }
        return lines
    }
}

extension String {
    /// The words of the text in lines of at most `width` columns. Only a word that is wider than a line is broken.
    func wrapped(to width: Int) -> [String] {
        let width = max(1, width)
        var lines: [String] = []
        var line = ""
        for word in split(separator: " ", omittingEmptySubsequences: true).map(String.init) {
            if !line.isEmpty, line.displayWidth + 1 + word.displayWidth <= width {
                line += " " + word
                continue
            }
            if !line.isEmpty { lines.append(line) }
            line = word
            while line.displayWidth > width {
                let head = line.prefix(columns: width)
                // One character may be wider than a line.
                if head.isEmpty { break }
                lines.append(head)
                line = String(line.dropFirst(head.count))
            }
        }
        return line.isEmpty && !lines.isEmpty ? lines : lines + [line]
    }
}

/// Times of day.
struct ClockText: Sendable {
    var timeZone = TimeZone.current

    func seconds(_ date: Date) -> String { text(date, "HH:mm:ss") }
    func milliseconds(_ date: Date) -> String { text(date, "HH:mm:ss.SSS") }

    private func text(_ date: Date, _ format: String) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = timeZone
        formatter.dateFormat = format
        return formatter.string(from: date)
    }
}
