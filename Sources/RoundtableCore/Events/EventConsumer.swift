/// What receives the events of a database.
package protocol EventConsumer: AnyObject, Sendable {
    /// Stores an event. It is called with the reporter's lock, so it takes no lock but its own, and calls nothing of the user's.
    func append(_ event: StampedEvent) -> EventReceipt

    /// No events follow. What is stored is still consumed.
    func finish()
}

/// What the reporter does after it has stored an event, without its lock.
package struct EventReceipt: Sendable {
    /// Wakes the consumer.
    var wake: (@Sendable () -> Void)?
    /// An event that was dropped or replaced, to be released.
    var removed: StampedEvent?
}
