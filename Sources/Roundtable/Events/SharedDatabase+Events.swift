import RoundtableCore

extension SharedDatabase {
    /// The events of this database, from now on.
    ///
    /// ```swift
    /// for await event in db.events where event.severity >= .warning {
    ///     await report(event)
    /// }
    /// ```
    ///
    /// A slow loop delays no access and no other consumer: 256 events wait for it; when there are more, the newest are kept, and
    /// ``Event/Kind-swift.enum/dropped(count:)`` says how many are missing. The loop ends when the database is closed, after the events
    /// that were reported before, and when the task is cancelled. It does not keep the database open.
    ///
    /// A sequence serves one loop: call this again for another, in any thread. The events of opening reach ``Options/onEvent`` alone.
    public var events: Events { Events(reporter) }

    /// The events of a database: ``SharedDatabase/events``.
    public struct Events: AsyncSequence, Sendable {
        public typealias Element = Event
        public typealias Failure = Never

        fileprivate static let capacity = 256

        private let subscription: Subscription

        fileprivate init(_ reporter: EventReporter) { subscription = Subscription(reporter) }

        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(subscription: subscription) }

        public struct AsyncIterator: AsyncIteratorProtocol {
            public typealias Element = Event
            public typealias Failure = Never

            fileprivate let subscription: Subscription

            /// Returns the next event; nil when the database is closed, or the task cancelled.
            public mutating func next() async -> Event? {
                await subscription.next()
            }

            /// Returns the next event; nil when the database is closed, or the task cancelled.
            public mutating func next(isolation actor: isolated (any Actor)?) async -> Event? {
                await subscription.next()
            }
        }

        /// A consumer of a reporter. It ends with the last reference to it.
        fileprivate final class Subscription: Sendable {
            private let path: String
            private let author: String
            private let buffer: EventBuffer
            private let cancel: @Sendable () -> Void

            init(_ reporter: EventReporter) {
                path = reporter.path
                author = reporter.author
                let buffer = EventBuffer(capacity: Events.capacity)
                let number = reporter.add(buffer)
                self.buffer = buffer
                // The consumers of a reporter may hold the database, which this does not keep open.
                cancel = { [weak reporter] in reporter?.remove(number) }
            }

            deinit { cancel() }

            func next() async -> Event? {
                while let stamped = await buffer.next() {
                    if let event = Event(stamped, path: path, author: author) { return event }
                }
                return nil
            }
        }
    }
}
