/// A script of what other connections do during a checkpoint. It runs the same way each time, because everything happens on one
/// thread, inside the system calls of the checkpoint.
///
/// Three connections besides the checkpointer take part. The *stranger* is a plain connection that checkpoints only when the script
/// says so. The *fellow* is of the same kind as the checkpointer (`Checkpointer`), and checkpoints by itself. The *reader* is a plain
/// connection that can keep a snapshot open.
package struct CheckpointSchedule: Codable, Sendable {
    /// The seed of the written content.
    package var seed: UInt64
    /// The actions before the commit that causes the checkpoint.
    package var prelude: [Action]
    /// The number of rows that this commit writes, of 32 KB each.
    package var largeRows: Int
    /// The mode of a checkpoint that the checkpointer requests after that commit; nil for none.
    package var asked: Mode?
    /// The mode of the checkpoint that a `SharedDatabase` requests if `asked` is nil, because its checkpoints in the background would run
    /// on another thread. (A plain connection makes SQLite's automatic checkpoint.)
    package var ours = Mode.passive
    package var interventions: [Intervention]
    /// Whether the commit, and a checkpoint that copies everything, come before the interventions. The requested checkpoint then has
    /// nothing to copy.
    package var copiesFirst = false

    /// Actions before the checkpoint's call number `ordinal` of this kind, counted from 0.
    package struct Intervention: Codable, Sendable {
        package var point: Point
        package var ordinal: Int
        package var actions: [Action]
    }

    package enum Action: Codable, Sendable {
        /// Inserts, updates and deletes `rows` small rows in one transaction.
        case commit(Actor, rows: Int)
        /// The stranger checkpoints.
        case checkpoint(Mode)
        /// The stranger writes `rows` small rows, and commits them later.
        case beginWrite(rows: Int), endWrite
        /// The reader begins a transaction and checks the whole content, or ends that transaction.
        case beginRead, endRead
        /// The fellow checks the whole content.
        case read
    }

    package enum Actor: String, Codable, Sendable, CaseIterable { case stranger, fellow }
    package enum Mode: String, Codable, Sendable, CaseIterable { case passive, full, restart, truncate }

    /// A kind of call of a checkpoint, in the order of the first calls.
    package enum Point: String, Codable, Sendable, CaseIterable {
        case shmLock, shmMap, shmBarrier, unfetch, fileControl, syncWAL, readWAL, sizeMain, fetchMain, writeMain
        case truncateMain, syncMain, truncateWAL
        case other
    }
}

/// The kind of connection that checkpoints.
package enum Checkpointer: String, Codable, Sendable, CaseIterable {
    /// A plain connection with SQLite's automatic checkpoint.
    case plain
    /// A `SharedDatabase`.
    case shared
}

extension CheckpointSchedule {
    /// SQLite's WAL-reset bug.
    ///
    ///     checkpointer                   others
    ///     ────────────────────────────   ─────────────────────────────────────────
    ///     commits N frames
    ///     asks for the CKPT lock         ← commit, and checkpoint: all is backfilled
    ///     reads the header: N + n frames
    ///     calls xUnfetch                 ← commit, which resets the WAL: m frames
    ///     sees that nothing of them is
    ///     backfilled, copies, and says
    ///     that N + n are
    ///                                    commit more than N + n: the first are never copied
    package static let walReset = CheckpointSchedule(
        seed: 1,
        prelude: [],
        largeRows: 18,
        interventions: [
            Intervention(
                point: .shmLock,
                ordinal: 0,
                actions: [.commit(.stranger, rows: 4), .checkpoint(.passive)]
            ),
            Intervention(point: .unfetch, ordinal: 0, actions: [.commit(.stranger, rows: 4)]),
        ]
    )

    /// SQLite's WAL-reset bug in a TRUNCATE checkpoint. It takes the write lock before it reads the header. If another connection holds
    /// the lock, SQLite continues without it, and that connection commits meanwhile.
    package static let walResetUnderTruncate = underTruncate(strangerRows: 4)

    /// `walResetUnderTruncate` with everything copied before, so that TRUNCATE only has to empty the file. Roundtable's own step that
    /// empties the file first checks that everything is copied.
    package static let walResetUnderLateTruncate = {
        var schedule = underTruncate(strangerRows: 40)
        schedule.copiesFirst = true
        return schedule
    }()

    private static func underTruncate(strangerRows: Int) -> CheckpointSchedule {
        CheckpointSchedule(
            seed: 1,
            prelude: [],
            largeRows: 8,
            asked: .truncate,
            interventions: [
                Intervention(
                    point: .shmLock,
                    ordinal: 0,
                    actions: [
                        .commit(.stranger, rows: strangerRows), .checkpoint(.passive), .beginWrite(rows: 4),
                    ]
                ),
                Intervention(point: .unfetch, ordinal: 0, actions: [.endWrite]),
            ]
        )
    }

    /// A random schedule. The moments before anything is copied are more likely, because other connections can do harm then. In a third
    /// of the schedules, another connection has checkpointed just before.
    package init(using random: inout SeededGenerator) {
        let weights: [(Point, weight: Int, ordinals: Int)] = [
            (.shmLock, 8, 9), (.unfetch, 8, 1), (.shmMap, 1, 2), (.shmBarrier, 2, 4), (.fileControl, 1, 4),
            (.syncWAL, 1, 1), (.readWAL, 2, 1500), (.sizeMain, 1, 2), (.writeMain, 2, 1500), (.truncateMain, 1, 1),
            (.syncMain, 1, 1), (.truncateWAL, 1, 1), (.fetchMain, 1, 2), (.other, 1, 2),
        ]
        func point() -> (Point, ordinal: Int) {
            var left = Int.random(in: 0..<weights.map(\.weight).reduce(0, +), using: &random)
            for (point, weight, ordinals) in weights {
                left -= weight
                if left < 0 { return (point, Int.random(in: 0..<ordinals, using: &random)) }
            }
            preconditionFailure("the weights add up")
        }
        seed = random.next()
        prelude = Self.actions(0...3, using: &random)
        largeRows = Int.random(in: 0..<10, using: &random) == 0 ? 48 : Int.random(in: 17...24, using: &random)
        ours = [.passive, .passive, .restart, .truncate].randomElement(using: &random)!
        interventions = (0..<Int.random(in: 1...4, using: &random)).map { _ in
            let (point, ordinal) = point()
            return Intervention(point: point, ordinal: ordinal, actions: Self.actions(1...3, using: &random))
        }
        if Int.random(in: 0..<3, using: &random) == 0 {
            let actions: [Action] = [
                .commit(.allCases.randomElement(using: &random)!, rows: .random(in: 1...30, using: &random)),
                .checkpoint(.allCases.randomElement(using: &random)!),
            ]
            interventions.insert(Intervention(point: .shmLock, ordinal: 0, actions: actions), at: 0)
        }
    }

    private static func actions(_ count: ClosedRange<Int>, using random: inout SeededGenerator) -> [Action] {
        (0..<Int.random(in: count, using: &random)).map { _ in
            switch Int.random(in: 0..<20, using: &random) {
            case ..<7: .commit(.stranger, rows: .random(in: 1...30, using: &random))
            case ..<11: .commit(.fellow, rows: .random(in: 1...30, using: &random))
            case ..<12: .commit(.allCases.randomElement(using: &random)!, rows: .random(in: 300...500, using: &random))
            case ..<15: .checkpoint(.passive)
            case ..<16: .checkpoint(.allCases.randomElement(using: &random)!)
            case ..<17: .beginRead
            case ..<18: .endRead
            default: .read
            }
        }
    }
}

/// The result of a schedule.
package struct ScheduleOutcome: Codable, Sendable {
    /// The damage of the database; nil when it is intact.
    package var damage: String?
    /// The number of interventions that took place. A checkpoint does not make every kind of call.
    package var interventions: Int
    /// The number of calls of each kind that the checkpoints made.
    package var calls: [String: Int]
    /// The number of actions that SQLite refused because another connection held a lock.
    package var refusals: Int

    package init(damage: String?, interventions: Int, calls: [String: Int], refusals: Int) {
        self.damage = damage
        self.interventions = interventions
        self.calls = calls
        self.refusals = refusals
    }
}
