import Foundation

/// The events that wait for one consumer. The number is bounded: the newest are kept, and those that were dropped are counted. It is a
/// pure value, which its owner holds under a lock.
struct PendingEvents {
    private let capacity: Int
    private var events: [StampedEvent] = []
    /// The number of events that were dropped before the first one in `events`, and the time of the last of them.
    private var dropped: (count: Int, date: Date)?

    init(capacity: Int) { self.capacity = max(1, capacity) }

    var isEmpty: Bool { events.isEmpty && dropped == nil }

    /// - returns: the event that was removed. The caller releases it outside of its lock, because that may call the user's code.
    mutating func append(_ new: StampedEvent) -> StampedEvent? {
        if let key = new.event.replacementKey,
            let index = events.lastIndex(where: { $0.event.replacementKey == key })
        {
            defer { events.append(new) }
            return events.remove(at: index)
        }
        events.append(new)
        guard events.count > capacity else { return nil }
        let oldest = events.removeFirst()
        dropped = ((dropped?.count ?? 0) + 1, oldest.date)
        return oldest
    }

    /// Removes and returns the first event. If events before it were dropped, an event that says so comes first.
    mutating func take() -> StampedEvent? {
        if let dropped {
            self.dropped = nil
            return StampedEvent(date: dropped.date, event: DroppedEvents(count: dropped.count))
        }
        return events.isEmpty ? nil : events.removeFirst()
    }
}
