import Synchronization

/// One participant's slot in the control block. It is a view of shared memory that owns nothing, and must not outlive the
/// block. (A reference to the block would cost more than all else on the hot path.)
package struct Slot: @unchecked Sendable {
    // @unchecked: the pointer is constant, and the memory behind it is accessed through atomics only (rule B4).
    package let index: Int
    private let base: UnsafeMutableRawPointer

    init(index: Int, blockBase: UnsafeMutableRawPointer) {
        self.index = index
        self.base = blockBase + Layout.headerSize + index * Layout.slotSize
    }

    private func word(_ field: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (base + field).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    var owner: UnsafeMutablePointer<Atomic<UInt64>> { word(Layout.Slot.owner) }
    var ticket: UnsafeMutablePointer<Atomic<UInt64>> { word(Layout.Slot.ticket) }
    var wakeWord: UnsafeMutablePointer<Atomic<UInt32>> {
        (base + Layout.Slot.wakeWord).assumingMemoryBound(to: Atomic<UInt32>.self)
    }
    /// The number of the last question that the owner has answered (rule P16).
    var answered: UnsafeMutablePointer<Atomic<UInt32>> {
        (base + Layout.Slot.answered).assumingMemoryBound(to: Atomic<UInt32>.self)
    }

    /// A number that is read on its own, so it needs no protocol. Except for `askedToAdvance`, only the owner writes it.
    subscript(field: Layout.SlotNumber) -> UInt64 {
        get { get(field.rawValue) }
        nonmutating set { set(field.rawValue, newValue) }
    }

    var traits: ParticipantTraits {
        get { ParticipantTraits(word: get(Layout.Slot.description)) }
        nonmutating set { set(Layout.Slot.description, newValue.word) }
    }
    /// Changes the traits. Several threads of the owner do so: one shows that the participant is suspended, another one its priority.
    func changeTraits(_ change: (inout ParticipantTraits) -> Void) {
        let field = word(Layout.Slot.description)
        var old = field.pointee.load(ordering: .acquiring)
        while true {
            var traits = ParticipantTraits(word: old)
            change(&traits)
            let result = field.pointee.compareExchange(
                expected: old,
                desired: traits.word,
                ordering: .acquiringAndReleasing
            )
            if result.exchanged { return }
            old = result.original
        }
    }
    var author: String {
        get { text(Layout.Slot.author, Layout.Slot.authorSize).text }
        nonmutating set {
            SharedText.write(newValue, size: Layout.Slot.authorSize) {
                word(Layout.Slot.author + $0).pointee.store($1, ordering: .relaxed)
            }
        }
    }
    /// The call site where the participant last began to write, as `File.swift:12`; nil if it never did.
    var callSite: String? { site(Layout.Slot.callSite) }
    func setCallSite(_ site: CallSite) { setSite(Layout.Slot.callSite, site) }

    /// The call site where the participant's oldest read began (rule O2); nil if it is unknown.
    var readCallSite: String? { site(Layout.Slot.readCallSite) }
    func setReadCallSite(_ site: CallSite) { setSite(Layout.Slot.readCallSite, site) }

    private func get(_ field: Int) -> UInt64 { word(field).pointee.load(ordering: .acquiring) }
    private func set(_ field: Int, _ value: UInt64) { word(field).pointee.store(value, ordering: .releasing) }

    // MARK: Text

    /// One word of the author's text, for copying the text.
    func authorWord(_ offset: Int) -> UInt64 { get(Layout.Slot.author + offset) }

    private func text(_ field: Int, _ size: Int) -> (text: String, number: UInt32) {
        SharedText.read(size: size) { word(field + $0).pointee.load(ordering: .relaxed) }
    }

    private func site(_ field: Int) -> String? {
        let (text, line) = text(field, Layout.Slot.callSiteSize)
        return text.isEmpty ? nil : "\(text):\(line)"
    }

    private func setSite(_ field: Int, _ site: CallSite) {
        SharedText.write(site, size: Layout.Slot.callSiteSize) {
            word(field + $0).pointee.store($1, ordering: .relaxed)
        }
    }
}

/// The role, priority and state of a participant.
package struct ParticipantTraits: Equatable, Sendable {
    package enum Role: UInt8, Sendable { case unknown, readWrite, readOnly }
    package enum State: UInt8, Sendable { case joining, present, settingUp, suspended }

    package var role: Role
    package var priority: UInt8
    package var state: State
    /// Whether the owner holds the lock of the slot (rule P9).
    package var isLocked = false
    /// Whether the owner refuses its own writes, because it does not know a migration of the database (rule S9).
    package var refusesWrites = false
    /// The incarnation of the owner that filled the slot. Until it equals the owner word's, the slot's other fields may
    /// be those of a former owner.
    var incarnation: UInt32 = 0

    package init(role: Role, priority: UInt8, state: State = .present) {
        self.role = role
        self.priority = priority
        self.state = state
    }

    init(word: UInt64) {
        role = Role(rawValue: UInt8(truncatingIfNeeded: word)) ?? .unknown
        priority = UInt8(truncatingIfNeeded: word >> 8)
        state = State(rawValue: UInt8(truncatingIfNeeded: word >> 16)) ?? .joining
        isLocked = word >> 24 & 1 != 0
        refusesWrites = word >> 25 & 1 != 0
        incarnation = UInt32(word >> 32)
    }

    var word: UInt64 {
        UInt64(role.rawValue) | UInt64(priority) << 8 | UInt64(state.rawValue) << 16 | (isLocked ? 1 << 24 : 0)
            | (refusesWrites ? 1 << 25 : 0) | UInt64(incarnation) << 32
    }
}
