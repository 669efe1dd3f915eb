import CBenchmarkShims
import Foundation
import Synchronization

/// Memory that a sender and its receiver share: which event is under way, and when the receiver saw each.
final class Scoreboard: @unchecked Sendable {
    // @unchecked: the pointer is constant, and the memory behind it is accessed through atomics only.
    private let base: UnsafeMutableRawPointer

    static let capacity = 1 << 20
    /// Sparse: only what is written takes room.
    private static let size = 4096 + capacity * 8

    private enum Field {
        static let current = 0
        static let bell = 128
        static let isActive = 256
        static let events = 4096
    }

    /// - parameter path: a file, which is created if it is not there.
    init(_ path: String) throws {
        let descriptor = open(path, O_RDWR | O_CREAT, 0o600)
        defer { if descriptor >= 0 { close(descriptor) } }
        guard descriptor >= 0, ftruncate(descriptor, off_t(Self.size)) == 0,
            let base = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), base != MAP_FAILED
        else { throw ParticipantProcess.Failure(description: "\(path): \(String(cString: strerror(errno)))") }
        self.base = base
    }

    deinit { munmap(base, Self.size) }

    private func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    private func halfWord(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt32>> {
        (base + offset).assumingMemoryBound(to: Atomic<UInt32>.self)
    }

    /// The number of the event that is under way, or was last: 1 for the first.
    var current: Int {
        get { Int(word(Field.current).pointee.load(ordering: .acquiring)) }
        set { word(Field.current).pointee.store(UInt64(newValue), ordering: .releasing) }
    }

    /// When the receiver first saw an event; 0: not yet.
    func seen(_ event: Int) -> Nanoseconds { word(Field.events + event * 8).pointee.load(ordering: .acquiring) }

    /// The receiver sees an event now, if it has not before.
    func see(_ event: Int) {
        let now = Clock.now
        guard (1..<Self.capacity).contains(event) else { return }
        _ = word(Field.events + event * 8).pointee.compareExchange(
            expected: 0,
            desired: now,
            ordering: .acquiringAndReleasing
        )
    }

    // MARK: The bare futex

    var bell: UInt32 { halfWord(Field.bell).pointee.load(ordering: .acquiring) }

    func waitForBell(after seen: UInt32) { Self.sleep(on: halfWord(Field.bell), while: seen) }

    func ring() {
        halfWord(Field.bell).pointee.wrappingAdd(1, ordering: .acquiringAndReleasing)
        Self.wake(halfWord(Field.bell))
    }

    // MARK: Whose slice it is

    /// A receiver that polls does so in its side's slices only.
    func setActive(_ isActive: Bool) {
        halfWord(Field.isActive).pointee.store(isActive ? 1 : 0, ordering: .releasing)
        Self.wake(halfWord(Field.isActive))
    }

    func waitUntilActive() {
        while halfWord(Field.isActive).pointee.load(ordering: .acquiring) == 0 {
            Self.sleep(on: halfWord(Field.isActive), while: 0)
        }
    }

    private static func sleep(on word: UnsafeMutablePointer<Atomic<UInt32>>, while value: UInt32) {
        bench_futex_wait(UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self), value)
    }

    private static func wake(_ word: UnsafeMutablePointer<Atomic<UInt32>>) {
        bench_futex_wake(UnsafeRawPointer(word).assumingMemoryBound(to: UInt32.self))
    }
}
