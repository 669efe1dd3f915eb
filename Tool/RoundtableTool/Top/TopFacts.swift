import Foundation
import Roundtable
import RoundtableCore
import RoundtableToolSupport

/// The first lines of the live view: commits, turn, queue, and the WAL with the reads that hold it back.
struct TopFacts {
    let model: TopModel
    let width: Int
    /// Whether each fact is one line, for a screen that has few lines.
    var isBrief = false

    static let labelWidth = 9
    private static let mostPins = 3
    private static let mostLines = 3

    func lines(_ sample: TopSample) -> [StyledText] {
        let status = sample.status
        var lines = fact("commits", commits(status)) + fact("turn", turn(status))
        if let stranger = stranger(status) { lines += fact("writes", stranger) }
        lines += fact("queue", queue)
        if let wal = status.wal { lines += walLines(wal) }
        if let problem = status.controlBlock.problem { lines += fact("block", StyledText(problem, .warning)) }
        return lines
    }

    /// A name, and a value that continues where it began.
    private func fact(_ name: String, _ value: StyledText) -> [StyledText] {
        let room = max(1, width - Self.labelWidth)
        var values = isBrief ? [value.fitted(to: room)] : value.wrapped(to: room)
        if values.count > Self.mostLines {
            values = Array(values.prefix(Self.mostLines))
            values[Self.mostLines - 1].append(" …", .dim)
        }
        return values.enumerated().map { index, line in
            StyledText((index == 0 ? name : "").padded(to: Self.labelWidth), .dim) + line
        }
    }

    private func commits(_ status: DatabaseStatus) -> StyledText {
        var text = StyledText(model.rates.commits.map { "\($0.text)/s" } ?? "–", .title)
        text.append(" · database \(status.files.database.byteSize)")
        if let schema = status.schema { text.append(" · \(schema.tableCount.of("table"))") }
        if let outbox = status.outbox, outbox.waiting > 0 {
            let style: TextStyle = StatusText(status).needsAttention(outbox) ? .warning : .plain
            text.append(" · \(outbox.waiting.of("command")) in the outbox", style)
        }
        return text
    }

    /// The participant that holds the turn, for how long, and where in the code it began to write.
    private func turn(_ status: DatabaseStatus) -> StyledText {
        guard status.controlBlock.state == .usable else { return StyledText("–", .dim) }
        guard let holder = status.turnHolder else { return StyledText("free", .dim) }
        var text = StyledText(holder.author, .title)
        text.append(" (\(holder.pidText)\(Self.stopped(holder.liveness)))")
        if let writing = holder.writing { text.append(" for \(StatusText.time(writing))") }
        if let site = holder.callSite { text.append(", \(site)") }
        return text
    }

    /// The holder of the write lock, if it takes no turns, or of a read lock in its place.
    private func stranger(_ status: DatabaseStatus) -> StyledText? {
        guard let writer = status.writeLock else {
            return StatusText.obstruction(status).map { StyledText($0, .bad) }
        }
        return writer.isParticipant ? nil : StyledText("\(writer), which takes no turns", .warning)
    }

    private var queue: StyledText {
        let waiters = model.queue
        guard !waiters.isEmpty else { return StyledText("empty", .dim) }
        var text = "\(waiters.count) wait\(waiters.count == 1 ? "s" : ""): "
        let room = 2 * (width - Self.labelWidth) - 10
        for (index, waiter) in waiters.enumerated() {
            let name = "\(index == 0 ? "" : ", ")\(waiter.author) \(StatusText.time(waiter.waiting ?? .zero))"
            guard index == 0 || text.displayWidth + name.displayWidth <= room else {
                text += ", …"
                break
            }
            text += name
        }
        return StyledText(text)
    }

    // MARK: The WAL

    private func walLines(_ wal: WALHealth) -> [StyledText] {
        let pins = wal.pins.prefix(Self.mostPins)
        let bar = TopBar(wal: wal, width: width - Self.labelWidth).text(pins: pins.count)
        if isBrief { return fact("WAL", bar) }
        var text = StyledText(wal.committedFrames.of("frame"))
        if wal.committedFrames > 0 {
            text.append(", \(wal.backfilledFrames * 100 / wal.committedFrames) % in the database")
        }
        text.append(" · file \(wal.size.byteSize)")
        if let growth = wal.growth { text.append(" · +\(Int(nearest: growth).grouped)/s") }
        if let checkpointer = wal.checkpointer?.name { text.append(" · checkpoints: \(checkpointer)") }
        var lines = fact("WAL", bar) + fact("", text)
        if let failure = wal.failure { lines += fact("", StyledText("\(failure)", .bad)) }
        for (index, pin) in pins.enumerated() { lines += fact("", line(pin, TopBar.letter(index))) }
        if wal.pins.count > pins.count {
            lines += fact("", StyledText("… \((wal.pins.count - pins.count).of("more read"))", .dim))
        }
        return lines
    }

    private func line(_ pin: WALHealth.Pin, _ letter: Character) -> StyledText {
        let isBad =
            pin.holder.liveness == .stopped || !pin.holder.isParticipant
            || LongRead.Limit().isPassed(age: pin.age ?? .zero, heldFrames: pin.heldFrames)
        var text = StyledText("\(letter) ", .bad)
        let stopped = Self.stopped(pin.holder.liveness)
        text.append("\(pin.holder.name ?? "?") (\(pin.holder.pidText)\(stopped))", isBad ? .warning : .plain)
        text.append(" holds \(pin.heldFrames.of("frame"))")
        if let age = pin.age { text.append(" for \(StatusText.time(age))") }
        if let site = pin.callSite { text.append(", \(site)") }
        return text
    }

    private static func stopped(_ liveness: SharingProcess.Liveness) -> String {
        switch liveness {
        case .alive, .unknown: ""
        case .stopped: ", stopped"
        case .dead: ", dead"
        }
    }
}
