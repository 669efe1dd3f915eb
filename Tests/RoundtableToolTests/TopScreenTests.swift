import Foundation
import Roundtable
import RoundtableCore
import RoundtableDiagnostics
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The live view's model: samples and keys in, lines out.
@Suite struct TopScreenTests {
    private func plain(_ model: TopModel, _ width: Int, _ height: Int? = 24) throws -> [String] {
        try TopWorld.lines(model, width, height).map { line in
            var text = line.plainText
            while text.last == " " { text.removeLast() }
            return text
        }
    }

    private func twoSamples(exact: Bool = true) throws -> TopModel {
        TopWorld.model(
            try TopWorld.sample(at: 0),
            try TopWorld.sample(
                at: 2,
                commits: [1100, 3200],
                since: exact ? [100, 200] : nil,
                warnings: [try TopWorld.warning]
            )
        )
    }

    /// A reader that locks out all writers is shown where a writer that takes no turns would be.
    @Test func aReaderThatStopsWriters() throws {
        var sample = try TopWorld.sample(at: 0)
        sample.status.obstructingLocks = [ObstructingLock(.checkpoint, pid: nil)]
        #expect(try !plain(TopWorld.model(sample), 120).contains { $0.hasPrefix("writes") })
        sample.status.obstructingLocks?.append(ObstructingLock(.write, pid: nil))
        let text = "a process that this one may not inspect keeps all writers out, by a read lock on byte 120 of -shm"
        #expect(try plain(TopWorld.model(sample), 120).contains("writes   \(text)"))
        #expect(TopLines(TopWorld.model(sample)).text.contains(" writes \(text)\n"))
    }

    // MARK: Widths

    @Test func `80 columns`() throws {
        let lines = try plain(twoSamples(), 80)
        #expect(
            lines == [
                "app.sqlite · 22:00:02                  3 participants · by commits/s · every 1 s",
                "commits  2,000/s · database 12 MiB · 3 tables",
                "turn     app (pid 101) for 1.2 ms, App/Store.swift:42",
                "queue    1 waits: sync daemon 3.4 ms",
                "WAL      ███a" + String(repeating: "░", count: 67),
                "         4,000 frames, 5 % in the database · file 20 MiB · +812/s",
                "         a widget (pid 103, stopped) holds 3,800 frames for 12.0 s,",
                "         Widget/Provider.swift:7",
                "",
                "PID  NAME         ROLE    STATE     AGE  COMMITS/S   WAITS  LONGEST  TURNS",
                "102  sync daemon  writer  waits    62 s      1,500  3.4 ms  12.3 ms  3,200",
                "101  app          writer  writes   62 s        500       –  12.3 ms  1,100",
                "103  widget       reader  stopped  62 s                  –        –      0",
                "",
                "! 'widget' (pid 103, stopped) has been reading one moment for 12.0 s, and holds",
                "  3,800 WAL frames back.",
                "",
                "LAST CHANGES",
                "22:00:01.999  sync daemon  entry, player",
                "22:00:01.998  app          entry",
                "22:00:01.997  pid 101      any table",
                "",
                "",
                "q quit · p pause · s sort · r reverse · / filter · ↑↓ scroll · h help",
            ]
        )
    }

    @Test func `160 columns`() throws {
        let lines = try plain(twoSamples(), 160)
        #expect(
            lines == [
                "app.sqlite · 22:00:02                                                                                                  3 participants · by commits/s · every 1 s",
                "commits  2,000/s · database 12 MiB · 3 tables",
                "turn     app (pid 101) for 1.2 ms, App/Store.swift:42",
                "queue    1 waits: sync daemon 3.4 ms",
                "WAL      ███████a" + String(repeating: "░", count: 143),
                "         4,000 frames, 5 % in the database · file 20 MiB · +812/s",
                "         a widget (pid 103, stopped) holds 3,800 frames for 12.0 s, Widget/Provider.swift:7",
                "",
                "PID  NAME         ROLE    STATE     AGE  COMMITS/S   WAITS  LONGEST  TURNS  READS FOR  LINE OF CODE",
                "102  sync daemon  writer  waits    62 s      1,500  3.4 ms  12.3 ms  3,200          –  –",
                "101  app          writer  writes   62 s        500       –  12.3 ms  1,100          –  App/Store.swift:42",
                "103  widget       reader  stopped  62 s                  –        –      0     12.0 s  Widget/Provider.swift:7",
                "",
                "! 'widget' (pid 103, stopped) has been reading one moment for 12.0 s, and holds 3,800 WAL frames back.",
                "",
                "LAST CHANGES",
                "22:00:01.999  sync daemon  entry, player",
                "22:00:01.998  app          entry",
                "22:00:01.997  pid 101      any table",
                "",
                "",
                "",
                "",
                "q quit · p pause · s sort · r reverse · / filter · ↑↓ scroll · h help",
            ]
        )
    }

    @Test func `40 columns`() throws {
        let lines = try plain(twoSamples(), 40)
        #expect(
            lines == [
                "app.sqlite · 22:00:02     3 participants",
                "commits  2,000/s · database 12 MiB · 3",
                "         tables",
                "turn     app (pid 101) for 1.2 ms,",
                "         App/Store.swift:42",
                "queue    1 waits: sync daemon 3.4 ms",
                "WAL      █a" + String(repeating: "░", count: 29),
                "         4,000 frames, 5 % in the",
                "         database · file 20 MiB · +812/s",
                "         a widget (pid 103, stopped)",
                "         holds 3,800 frames for 12.0 s,",
                "         Widget/Provider.swift:7",
                "",
                "NAME         STATE    COMMITS/S   WAITS",
                "sync daemon  waits        1,500  3.4 ms",
                "app          writes         500       –",
                "widget       stopped                  –",
                "",
                "! 'widget' (pid 103, stopped) has been",
                "  reading one moment for 12.0 s, and",
                "  holds 3,800 WAL frames back.",
                "",
                "",
                "q quit · h help",
            ]
        )
    }

    @Test func `No line is wider than the screen, and no screen is higher, whatever their size`() throws {
        var help = try twoSamples()
        _ = help.handle(.character("h"))
        var typing = try twoSamples()
        _ = typing.handle(.character("/"))
        for model in [try twoSamples(), help, typing] {
            for width in 1...170 {
                for height in [1, 2, 5, 10, 24, 60] {
                    let lines = try TopWorld.lines(model, width, height)
                    #expect(lines.count == height, "\(width) × \(height)")
                    #expect(lines.allSatisfy { $0.width <= width }, "\(width) × \(height): \(lines.map(\.plainText))")
                }
            }
        }
    }

    @Test func `The participants keep three lines where there is little room`() throws {
        let lines = try plain(twoSamples(), 80, 14)
        #expect(lines.contains { $0.contains("sync daemon") } && lines.contains { $0.contains("widget       reader") })
        #expect(!lines.contains("LAST CHANGES"))
        #expect(lines.last == "q quit · p pause · s sort · r reverse · / filter · ↑↓ scroll · h help")
    }

    @Test func `Where there are few lines, each fact has one, and the participants are there`() throws {
        let lines = try plain(twoSamples(), 40, 10)
        #expect(lines[1].hasPrefix("commits  2,000/s") && lines[2].hasPrefix("turn     app (pid 101)"))
        #expect(lines[3] == "queue    1 waits: sync daemon 3.4 ms")
        #expect(
            lines[4...] == [
                "", "NAME         STATE    COMMITS/S   WAITS", "sync daemon  waits        1,500  3.4 ms",
                "app          writes         500       –", "widget       stopped                  –", "q quit · h help",
            ]
        )
        // With two lines more, the bar of the WAL is there, too.
        #expect(try plain(twoSamples(), 40, 12)[4].hasPrefix("WAL      █a░"))
    }

    @Test(arguments: 10...30) func `No participant is left out above empty lines`(height: Int) throws {
        var sample = try TopWorld.sample(at: 0)
        sample.status.participants += sample.status.participants.map { other in
            var other = other
            other.pid += 100
            return other
        }
        let lines = try plain(TopWorld.model(sample), 60, height)
        let more = try #require(
            lines.firstIndex { $0.contains(" more (↓)") } ?? lines.lastIndex { $0.contains("widget") }
        )
        let empty = lines[more...].dropFirst().prefix { $0.isEmpty }.count
        #expect(!lines[more].contains(" more ") || empty < 2, "\(lines)")
    }

    @Test func `A pid of another namespace is marked, and leaves the other columns their place`() throws {
        var sample = try TopWorld.sample(at: 0)
        sample.status.participants[1].isInOtherPIDNamespace = true
        let lines = try plain(TopWorld.model(sample), 80)
        #expect(lines.contains { $0.hasPrefix("102 ↗  sync daemon  writer  waits    60 s") }, "\(lines)")
        let status = StatusText(sample.status).text
        #expect(
            status.contains("  102 ↗  sync daemon  writer  waits  ")
                && status.contains("\n  ↗  in another pid namespace\n")
        )
        sample.status.participants[1].isInOtherPIDNamespace = false
        #expect(!StatusText(sample.status).text.contains("↗"))
    }

    /// Litestream reads at all times. Its read is as remarkable as that of a participant, and another program's is more so.
    @Test func `The read of Litestream is no warning in the status`() throws {
        var status = try TopWorld.sample(at: 0).status
        let holder = SharingProcess(pid: 104, name: "litestream", isParticipant: false)
        status.wal?.pins = [WALHealth.Pin(holder: holder, heldFrames: 957)]
        #expect(
            StatusText(status).text.contains(
                "\n  ! 'litestream' (pid 104, unknown), which is no participant, holds 957 "
            )
        )
        var replication = ReplicationStatus(state: .replicating, since: Date())
        replication.litestream = 104
        status.replication = replication
        #expect(
            StatusText(status).text.contains("\n  'litestream' (pid 104, unknown), which replicates it, holds 957 ")
        )
    }

    // MARK: Rates

    @Test func `A rate of damaged numbers is as large as a number can be`() {
        #expect(TopRates.Rate(perSecond: 2e19, isExact: false).text == "~9,223,372,036,854,775,807")
        #expect(TopRates.Rate(perSecond: .nan, isExact: true).text == "0")
    }

    @Test func `The first sample has no rates`() throws {
        let model = TopWorld.model(try TopWorld.sample(at: 0))
        #expect(model.rates == TopRates())
        let lines = try plain(model, 80)
        #expect(lines[1] == "commits  – · database 12 MiB · 3 tables")
        #expect(TopJSON(model)?.commits == nil && TopLines(model).text.contains(" commits –, 3 participants\n"))
        // Two samples at almost the same time give none, either.
        #expect(TopRates(from: try TopWorld.sample(at: 0), to: try TopWorld.sample(at: 0.01)) == TopRates())
    }

    @Test func `Rates count the commits of the ring, or turns if it has not all of them`() throws {
        let exact = try twoSamples().rates
        #expect(exact.commits == TopRates.Rate(perSecond: 2000, isExact: true))
        let model = try twoSamples(exact: false)
        #expect(model.rates.commits == TopRates.Rate(perSecond: 2000, isExact: false))
        #expect(try plain(model, 80)[1].hasPrefix("commits  ~2,000/s"))
        let daemon = model.participants[0]
        #expect(daemon.author == "sync daemon")
        #expect(model.rates.commits(of: daemon) == TopRates.Rate(perSecond: 1500, isExact: false))
    }

    @Test func `Turns and commits are counted over the time between their own readings`() throws {
        let old = try TopWorld.sample(at: 0)
        var new = try TopWorld.sample(at: 1, commits: [300, 200])
        // The database was locked for a second after the participants were read.
        new.commitsTime += 1_000_000_000
        let rates = TopRates(from: old, to: new)
        #expect(rates.commits?.perSecond == 100 && rates.commits(of: new.status.participants[0])?.perSecond == 200)
    }

    @Test func `A participant, or a ring, that is new has no rate`() throws {
        var old = try TopWorld.sample(at: 0)
        let new = try TopWorld.sample(at: 1, commits: [300, 300], since: [100, 200])
        old.status.participants.remove(at: 0)
        let rates = TopRates(from: old, to: new)
        #expect(rates.commits(of: new.status.participants[0]) == nil)
        #expect(rates.commits(of: new.status.participants[1])?.perSecond == 100)
        old.commits?.lastSequence = 1_000_000
        #expect(TopRates(from: old, to: new).commits == nil)
        old.commits = nil
        #expect(TopRates(from: old, to: new).commits == nil)
    }

    @Test func `Changes in a row are one line, and lines have each change once`() throws {
        var first = try TopWorld.sample(at: 0)
        first.commits?.lastSequence = 3
        var second = try TopWorld.sample(at: 1)
        second.commits?.lastSequence = 5
        var commits = try #require(second.commits?.commits)
        for sequence in 4...5 as ClosedRange<UInt64> {
            commits.insert(commits[0], at: 0)
            commits[0].sequence = sequence
        }
        second.commits?.commits = commits
        let model = TopWorld.model(first, second)
        #expect(model.groupedChanges.map(\.count) == [3, 1, 1])
        #expect(try plain(model, 80).contains("22:00:00.999  sync daemon  entry, player ×3"))
        #expect(model.newChanges.map(\.sequence) == [5, 4])
        let lines = TopLines(model).text.split(separator: "\n").filter { $0.contains(" change ") }
        #expect(lines.count == 2)
        // The ring was recreated.
        var third = second
        third.commits?.lastSequence = 2
        #expect(TopWorld.model(first, second, third).newChanges.count == 5)
    }

    // MARK: Keys

    @Test func `Participants are sorted by the chosen column`() throws {
        var model = try twoSamples()
        func names() -> [String] { model.participants.map(\.author) }
        #expect(names() == ["sync daemon", "app", "widget"])
        _ = model.handle(.character("s"))
        #expect(model.order == .waiting && names() == ["sync daemon", "app", "widget"])
        _ = model.handle(.character("s"))
        #expect(model.order == .name && names() == ["app", "sync daemon", "widget"])
        _ = model.handle(.character("r"))
        #expect(names() == ["widget", "sync daemon", "app"])
        for _ in 0..<3 { _ = model.handle(.character("s")) }
        #expect(model.order == .commits)
    }

    @Test func `A filter is typed, kept, and dropped`() throws {
        var model = try twoSamples()
        for key in TerminalKey.keys(of: Array("/SYNx".utf8)) + [.backspace] { _ = model.handle(key) }
        #expect(model.isTyping && model.filter == "SYN")
        #expect(model.participants.map(\.author) == ["sync daemon"])
        #expect(model.changes.map(\.author) == ["sync daemon"])
        // Keys are text while a filter is typed.
        #expect(model.handle(.character("q")) == .redraw)
        #expect(model.handle(.escape) == .redraw && model.filter == "" && !model.isTyping)
        for key in TerminalKey.keys(of: Array("/103\r".utf8)) { _ = model.handle(key) }
        #expect(!model.isTyping && model.participants.map(\.author) == ["widget"])
        #expect(model.handle(.escape) == .redraw && model.participants.count == 3)
        // Esc clears a filter that was kept, too, when it is typed again.
        for key in TerminalKey.keys(of: Array("/103\r/4".utf8)) { _ = model.handle(key) }
        #expect(model.isTyping && model.participants.isEmpty)
        #expect(model.handle(.escape) == .redraw && !model.isTyping && model.participants.count == 3)
    }

    @Test func `Pause, help, scroll and quit`() throws {
        var model = try twoSamples()
        _ = model.handle(.character("p"))
        #expect(model.isPaused)
        _ = model.handle(.character(" "))
        #expect(!model.isPaused)
        #expect(model.handle(.character("h")) == .redraw && model.showsHelp)
        #expect(model.handle(.down) == .redraw && !model.showsHelp && model.scroll == 0)
        for _ in 0..<9 { _ = model.handle(.down) }
        #expect(model.scroll == 2)
        for _ in 0..<9 { _ = model.handle(.up) }
        #expect(model.scroll == 0)
        #expect(model.handle(.character("x")) == .none && model.handle(.character("q")) == .quit)
    }

    @Test func `Bytes of a terminal are keys`() {
        #expect(
            TerminalKey.keys(of: Array("qé\r\u{7F}\u{1B}[A\u{1B}OB".utf8)) == [
                .character("q"), .character("é"), .enter, .backspace, .up, .down,
            ]
        )
        #expect(TerminalKey.keys(of: [0x1B]) == [.escape])
        #expect(
            TerminalKey.keys(of: Array("\t\u{1}\u{1B}[D\u{1B}[3~\u{1B}[H\u{1B}OF".utf8)) == [
                .tab, .control("a"), .left, .delete, .home, .end,
            ]
        )
        // F5, bytes that are no UTF-8, and a sequence that is cut short.
        #expect(TerminalKey.keys(of: Array("\u{1B}[15~".utf8) + [0xFF, 0xC3]) == [])
        #expect(TerminalKey.keys(of: Array("\u{1B}[1".utf8)) == [])
        // A byte that is no UTF-8 takes no others with it.
        #expect(TerminalKey.keys(of: [0xE9] + Array("ab".utf8)) == [.character("a"), .character("b")])
    }

    @Test func `A key may come in two pieces`() {
        let bytes = Array("é\u{1B}[3~漢😀\u{1B}OAx".utf8)
        let keys: [TerminalKey] = [
            .character("é"), .delete, .character("漢"), .character("😀"), .up, .character("x"),
        ]
        for cut in 1..<bytes.count {
            var rest: [[UInt8]] = [Array(bytes[cut...])]
            var found = TerminalKey.keys(of: Array(bytes[..<cut])) { rest.popLast() ?? [] }
            if let rest = rest.first { found += TerminalKey.keys(of: rest) }
            #expect(found == keys, "\(cut)")
        }
        // Nothing follows the key Esc.
        #expect(TerminalKey.keys(of: [0x1B]) { [] } == [.escape])
        #expect(TerminalKey.keys(of: Array("ab".utf8)) { [0x63] } == [.character("a"), .character("b")])
    }

    // MARK: The bar, and text

    @Test func `The bar shows what is copied, and where each read stops a checkpoint`() throws {
        var wal = try #require(try TopWorld.sample(at: 0).status.wal)
        #expect(TopBar(wal: wal, width: 20).text(pins: 1).plainText == "█a" + String(repeating: "░", count: 18))
        wal.backfilledFrames = 3000
        wal.pins[0].heldFrames = 500
        #expect(TopBar(wal: wal, width: 20).text(pins: 1).plainText == String(repeating: "█", count: 15) + "░░a░░")
        wal.pins[0].heldFrames = 0
        #expect(TopBar(wal: wal, width: 4).text(pins: 1).plainText == "███a")
        wal.committedFrames = 0
        #expect(TopBar(wal: wal, width: 4).text(pins: 1).plainText == "····")
    }

    @Test func `Text is fitted and wrapped by columns, and no word is broken`() {
        #expect("日本語".fitted(to: 5) == "日本…" && "日本語".fitted(to: 4) == "日…" && "abc".fitted(to: 3) == "abc")
        #expect("one two three".wrapped(to: 8) == ["one two", "three"])
        #expect("unbreakable a".wrapped(to: 6) == ["unbrea", "kable", "a"])
        #expect("".wrapped(to: 6) == [""])
        let text = StyledText("bad", .bad) + StyledText(" and good")
        #expect(text.text(isColoured: false) == "bad and good")
        #expect(text.text(isColoured: true) == "\u{1B}[31mbad\u{1B}[0m and good")
        // Names of other programs must not move the cursor.
        #expect(StyledText("a\u{1B}[2Jb").text(isColoured: true) == "a·[2Jb")
    }
}
