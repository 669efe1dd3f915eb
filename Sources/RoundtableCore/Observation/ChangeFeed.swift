import Foundation
import RoundtableKernel
import Synchronization

/// Follows the commits of all processes, and delivers them to subscribers (rules N1–N7). A feed runs from `start` to `stop`. Another feed
/// can continue at its position, on another connection.
///
/// Two threads sleep until there is news: one waits on the control block's news word, the other watches the `-wal` file. When they wake,
/// both do the same: they read the ring and the commit counter, and account for what they find.
final class ChangeFeed: Sendable {
    /// The position of a stopped feed, at which the next feed continues.
    struct Position {
        fileprivate let block: ControlBlock?
        fileprivate let reader: RingReader
        fileprivate let translator: ChangeTranslator
        /// The place of the position in the WAL; nil when it is not known.
        fileprivate let mark: WalMark?
    }

    /// The state of reading. A thread holds the lock `reading` while it reads the ring or the counter. The counter is not read after
    /// `stop`.
    fileprivate struct Reading {
        var block: ControlBlock?
        var listener: NewsListener?
        var reader: RingReader
        var translator: ChangeTranslator
        var lastPlaceCheck: Nanoseconds = 0
        var isStopped = false
        var isPaused = false
        /// Why anything may have changed since the position, although the ring does not show it.
        var doubt: RingReader.Reason?
        /// Whether everything that the next read finds is reported as one change.
        var isCatchingUp = false
    }

    private let databasePath: String
    private let author: String
    private let connection: ObservationConnection
    private let owns: @Sendable (OwnerWord, ControlBlock) -> Bool
    private let didCompareBlock: @Sendable (_ isNew: Bool) -> Void
    private let answer: @Sendable (UInt32, ControlBlock) -> Void
    private let uncoordinated: CommitsWithoutSeat
    private let watch: FileWatch
    /// The files whose commits are followed.
    private let files: DatabaseFiles

    private let reading: Mutex<Reading>
    /// Held while changes are read and delivered, so that they are delivered in order.
    private let delivery = NSLock()
    private let subscribers: ChangeSubscribers

    private static let placeCheckInterval: Nanoseconds = 250_000_000

    /// - Parameters:
    ///   - position: where to continue; nil to begin with the next commit.
    ///   - owns: whether the owner of a record in the ring of a control block is this participant.
    ///   - didCompareBlock: called when the control block was compared with the file in its place, with whether the feed follows another
    ///     one now. It must not wait.
    ///   - answer: called with the number of a question for signs of life, and the block where it was asked (rule P16). It must not wait.
    init(
        databasePath: String,
        author: String,
        connection: ObservationConnection,
        uncoordinated: CommitsWithoutSeat,
        subscribers: ChangeSubscribers,
        files: DatabaseFiles,
        from position: Position? = nil,
        isPaused: Bool = false,
        owns: @escaping @Sendable (OwnerWord, ControlBlock) -> Bool,
        didCompareBlock: @escaping @Sendable (_ isNew: Bool) -> Void = { _ in },
        answer: @escaping @Sendable (UInt32, ControlBlock) -> Void = { _, _ in }
    ) {
        self.databasePath = databasePath
        self.files = files
        self.author = author
        self.connection = connection
        self.uncoordinated = uncoordinated
        self.subscribers = subscribers
        self.owns = owns
        self.didCompareBlock = didCompareBlock
        self.answer = answer
        let folder = (databasePath as NSString).deletingLastPathComponent
        watch = FileWatch(path: databasePath + "-wal", folder: folder, others: [databasePath, databasePath + "-shm"])
        var first: Reading
        if let position {
            first = position.resumed(at: connection.walIndex.header)
        } else {
            let block = Self.openBlock(databasePath)
            let counter = connection.walIndex.commitCounter
            first = Reading(
                block: block,
                reader: RingReader(sequence: block?.lastSequence ?? 0, counter: counter),
                translator: ChangeTranslator(block, from: counter)
            )
        }
        first.isPaused = isPaused
        reading = Mutex(first)
    }

    /// Starts the threads. Commits made since the position are delivered before this returns, unless the feed is paused.
    func start() {
        if reading.withLock({ $0.isCatchingUp }) { deliverNews() }
        uncoordinated.onAdd { [weak self] in self?.deliverNews() }
        reading.withLock { $0.listener = listen(to: $0.block) }
        let thread = Thread { [self] in watchFile() }
        thread.name = "roundtable.watch"
        thread.start()
    }

    /// Ends the threads. When this returns, the counter is not read any more.
    ///
    /// - parameter waiting: whether to wait a short time for the thread that waits for news. A subscriber may keep that thread busy.
    /// - returns: the position at which another feed can continue. The connection stays open.
    @discardableResult
    func stop(waiting: Bool = true) -> Position {
        uncoordinated.onAdd {}
        let (listener, position) = reading.withLock { reading in
            reading.isStopped = true
            defer { reading.listener = nil }
            return (reading.listener, place(of: reading))
        }
        watch.interrupt()
        if waiting { listener?.stop() } else { DetachedThread.startOrQueue { listener?.stop() } }
        return position
    }

    private func place(of reading: Reading) -> Position {
        let header = connection.walIndex.header
        // If there are undelivered commits, the WAL ends beyond the position, and the place in the WAL is not known.
        let isThere = reading.doubt == nil && header?.commitCounter == reading.reader.counter
        return Position(
            block: reading.block,
            reader: reading.reader,
            translator: reading.translator,
            mark: isThere ? header?.mark : nil
        )
    }

    // MARK: Pausing

    /// Pauses delivery. Changes accumulate until `resume()`.
    func pause() {
        delivery.withLock { reading.withLock { $0.isPaused = true } }
    }

    /// Resumes delivery. Commits made since `pause()` are reported as one change.
    func resume() {
        reading.withLock { reading in
            guard reading.isPaused else { return }
            reading.isPaused = false
            reading.isCatchingUp = true
        }
        deliverNews()
    }

    // MARK: Subscribers

    /// Adds a subscriber. It is not notified of earlier commits.
    ///
    /// - returns: the identifier to pass to `ChangeSubscribers.remove`.
    func subscribe(_ body: @escaping ChangeSubscribers.Subscriber) -> UInt64 {
        deliverNews()
        return subscribers.add(body)
    }

    // MARK: News

    /// The result of one read of the ring.
    struct Look {
        var hasNews = false
        /// When to read again without being woken; nil when that is not needed.
        var again: Nanoseconds?
    }

    @discardableResult
    private func deliverNews() -> Look {
        delivery.withLock {
            let (changes, lookAgain) = reading.withLock { reading in
                if reading.isStopped || reading.isPaused { return ([DatabaseChange](), Nanoseconds?.none) }
                let (changes, lookAgain) = read(&reading)
                defer { reading.isCatchingUp = false }
                return (reading.isCatchingUp ? DatabaseChange.merged(changes) : changes, lookAgain)
            }
            // The commits may be those of another file, which participants of that one publish in the same ring. A participant that has lost
            // its file wakes all listeners, so that they look.
            if files.lookIfDue(at: MonotonicClock.now) == nil, !changes.isEmpty { subscribers.tell(changes) }
            return Look(hasNews: !changes.isEmpty, again: lookAgain)
        }
    }

    private func read(_ reading: inout Reading) -> ([DatabaseChange], lookAgain: Nanoseconds?) {
        var news: [RingReader.News] = []
        if let doubt = reading.doubt {
            reading.doubt = nil
            news.append(.anything(doubt))
        }
        if !isInPlace(&reading) { news.append(.anything(.began)) }
        let block = reading.block
        let before = reading.reader.counter
        let lookAgain = reading.reader.read(
            now: MonotonicClock.now,
            counter: { connection.walIndex.commitCounter },
            last: { [sequence = reading.reader.sequence] in block?.lastSequence ?? sequence },
            record: { block?.record($0) },
            isRunning: { block?.isRunning($0) ?? ProcessTable.isRunning($0.pid) },
            report: { news.append($0) }
        )
        if news.isEmpty { return ([], lookAgain) }
        defer { if news.contains(.anything(.reset)) { uncoordinated.forget() } }
        let after = reading.reader.counter
        var changes = reading.translator.changes(news, upTo: after) { owner in
            block.map { owns(owner, $0) } ?? false
        }
        if news == [.anything(.unrecorded)], let own = uncoordinated.take(after: before, through: after) {
            for index in changes.indices {
                changes[index].tables = own
                changes[index].isOwn = true
                changes[index].author = author
                changes[index].pid = getpid()
                changes[index].detail = after &- before == 1 ? .commit : .several
            }
        }
        return (changes, lookAgain)
    }

    /// Checks whether the control block was replaced, and in that case continues at the end of the new one (rule N4).
    ///
    /// - returns: false when the control block was replaced.
    private func isInPlace(_ reading: inout Reading) -> Bool {
        let now = MonotonicClock.now
        guard now &- reading.lastPlaceCheck >= Self.placeCheckInterval else { return true }
        reading.lastPlaceCheck = now
        var newBlock: ControlBlock?
        defer { didCompareBlock(newBlock != nil) }
        if let block = reading.block, block.isIntact, block.isInPlace { return true }
        let block = Self.openBlock(databasePath)
        newBlock = block
        if reading.block == nil, block == nil { return true }
        reading.block = block
        // The old listener is stopped on another thread, because this may be its own thread.
        let old = reading.listener
        reading.listener = listen(to: block)
        if let old { DispatchQueue.global().async { old.stop() } }
        let counter = connection.walIndex.commitCounter
        reading.reader = RingReader(sequence: block?.lastSequence ?? 0, counter: counter)
        reading.translator.read(block)
        return false
    }

    /// Maps the control block read-only, whatever this participant's role. Without a usable one, the watch on the file remains (rule N3).
    private static func openBlock(_ databasePath: String) -> ControlBlock? {
        try? ControlBlock.open(forDatabaseAt: databasePath, writable: false)
    }

    private func listen(to block: ControlBlock?) -> NewsListener? {
        block.map { block in
            NewsListener(block, { [answer] in answer($0, block) }) { [weak self] in
                ChangesExecutor.handingOut { self?.deliverNews() ?? Look() }
            }
        }
    }

    // MARK: The file

    private static let pause: Nanoseconds = 10_000_000
    /// The waits between reads after a write to the file, in nanoseconds. A commit counts only once it is synced, which is after its last
    /// write.
    private static let looks: [Nanoseconds] = [10, 20, 40, 80, 160, 320, 640].map { $0 * 1_000_000 }
    /// The wait between reads while a transaction is in progress, and while the system has no watch to give.
    private static let longPause: Nanoseconds = 250_000_000

    private func watchFile() {
        var look = 0
        while !reading.withLock({ $0.isStopped }) {
            do {
                if try watch.arm() { look = 0 }
                _ = ChangesExecutor.handingOut { deliverNews() }
                switch try waitForWrite(look) {
                case .interrupted:
                    return
                case .timedOut:
                    look += 1
                case .changed:
                    look = 0
                    files.look()
                    // The watch is not armed during this pause, so writing costs writers nothing.
                    _ = watch.pause(Self.pause)
                }
            } catch {
                // The system has no watch to give. Until it has one, the counter is compared every `longPause`. The news word still wakes
                // the other thread.
                if watch.pause(Self.longPause) == .interrupted { return }
                look = 0
                _ = ChangesExecutor.handingOut { deliverNews() }
            }
        }
    }

    private func waitForWrite(_ look: Int) throws -> FileWatch.Outcome {
        if look < Self.looks.count { return try watch.wait(upTo: Self.looks[look]) }
        // The holder of the write lock may be at the last sync of a commit.
        if SystemLocks.writer(databasePath: databasePath) != nil { return try watch.wait(upTo: Self.longPause) }
        return try watch.wait()
    }
}

/// A thread that sleeps until a participant publishes a commit.
private final class NewsListener: Sendable {
    private let block: ControlBlock
    private let answer: @Sendable (UInt32) -> Void
    private let isStopped = Atomic(false)
    private let ended = MonotonicSemaphore()
    private let thread = Atomic<UInt>(0)

    /// Commits that follow each other within `distance` are a burst. In a burst, the thread sleeps for `pause` between two reads instead
    /// of reading after each commit, so that observers leave the processors to writers. Both are in nanoseconds.
    private static let burst: (distance: Nanoseconds, pause: Nanoseconds) = (2_000_000, 1_000_000)

    /// - Parameters:
    ///   - answer: called with each question that is new.
    ///   - look: called before each sleep.
    init(
        _ block: ControlBlock,
        _ answer: @escaping @Sendable (UInt32) -> Void,
        _ look: @escaping @Sendable () -> ChangeFeed.Look
    ) {
        self.block = block
        self.answer = answer
        let thread = Thread { [self] in
            self.thread.store(Self.currentThread, ordering: .sequentiallyConsistent)
            listen(look)
            ended.signal()
        }
        thread.name = "roundtable.news"
        thread.qualityOfService = .userInitiated
        thread.start()
    }

    private func listen(_ look: () -> ChangeFeed.Look) {
        var lastNews: Nanoseconds = 0
        var answered: UInt32?
        while !isStopped.load(ordering: .sequentiallyConsistent) {
            let seen = block.newsWord
            let question = block.lastQuestion
            if question != answered {
                answer(question)
                answered = question
            }
            let found = look()
            let now = MonotonicClock.now
            if found.hasNews {
                let isBurst = now &- lastNews < Self.burst.distance
                lastNews = now
                if isBurst {
                    MonotonicClock.sleep(Self.burst.pause)
                    continue
                }
            }
            let timeout = found.again.map { $0.subtractingSaturating(now) } ?? .max
            // The word cannot be waited on. The watch on the file remains.
            if case .failed = block.waitForNews(after: seen, timeout: timeout) { return }
        }
    }

    /// Stops the thread, and waits at most about 20 ms for its end. A consumer that runs on it may take long, or may wait for the caller.
    func stop() {
        isStopped.store(true, ordering: .sequentiallyConsistent)
        if thread.load(ordering: .sequentiallyConsistent) == Self.currentThread { return }
        for _ in 0..<20 where hasEnded(within: 1) { return }
        let thread = Thread { [self] in
            // If the file was truncated, the thread sleeps until `ControlBlock.longestNewsWait` is over, in spite of interrupts.
            var pause = 1
            while !hasEnded(within: pause) { pause = min(2 * pause, 10_000) }
        }
        thread.start()
    }

    /// Interrupts the thread, and waits for its end. One interrupt may not be enough, because the thread may be about to fall asleep.
    private func hasEnded(within milliseconds: Int) -> Bool {
        block.interruptNews()
        return ended.wait(upTo: Nanoseconds(milliseconds) * 1_000_000)
    }

    private static var currentThread: UInt {
        #if canImport(Darwin)
            UInt(bitPattern: pthread_self())
        #else
            UInt(pthread_self())
        #endif
    }
}

extension ChangeFeed.Position {
    /// The state of a feed that continues at this position on another connection (rule N7).
    fileprivate func resumed(at header: WalIndex.Header?) -> ChangeFeed.Reading {
        var resumed = ChangeFeed.Reading(block: block, reader: reader, translator: translator)
        resumed.isCatchingUp = true
        guard let header else {
            resumed.doubt = .reset
            return resumed
        }
        switch header.commits(since: reader.counter, at: mark) {
        case .none:
            resumed.reader = RingReader(sequence: reader.sequence, counter: header.commitCounter)
            resumed.translator.recount(from: header.commitCounter)
        case .counted: break
        case .unknown: resumed.doubt = .reset
        }
        return resumed
    }
}
