/// What others do while somebody checkpoints: a script that runs the same each time, because everything happens on one thread,
/// from inside the calls that the checkpoint makes to the system.
///
/// Three connections besides the one that checkpoints take part. The *stranger* is a plain connection that checkpoints when it is
/// told to; the *fellow* is of the kind of the one that checkpoints (`Checkpointer`), and checkpoints by itself; the *reader* is a
/// plain connection that can stay at a snapshot.
package struct CheckpointSchedule: Codable, Sendable {
    /// Of what is written.
    package var seed: UInt64
    /// What happens before the commit that has the checkpoint made.
    package var prelude: [Action]
    /// How many rows that commit writes, of 32 KB each.
    package var largeRows: Int
    /// A checkpoint that the one who checkpoints asks for after that commit.
    package var asked: Mode?
    /// Else a `SharedDatabase` asks for this one: it makes its own in the background, and here is one thread. (A plain connection makes SQLite's
    /// automatic one.)
    package var ours = Mode.passive
    package var interventions: [Intervention]
    /// Commits, and copies everything, before the interventions are counted: what is asked for has nothing to copy.
    package var copiesFirst = false

    /// Before the call number `ordinal` of this kind that the checkpoint makes, counted from 0.
    package struct Intervention: Codable, Sendable {
        package var point: Point
        package var ordinal: Int
        package var actions: [Action]
    }

    package enum Action: Codable, Sendable {
        /// Inserts, updates and deletes so many small rows, in one transaction.
        case commit(Actor, rows: Int)
        /// By the stranger.
        case checkpoint(Mode)
        /// The stranger writes so many small rows, and commits them later.
        case beginWrite(rows: Int), endWrite
        /// The reader looks at everything, and stays where it is, or goes away from there.
        case beginRead, endRead
        /// The fellow looks at everything.
        case read
    }

    package enum Actor: String, Codable, Sendable, CaseIterable { case stranger, fellow }
    package enum Mode: String, Codable, Sendable, CaseIterable { case passive, full, restart, truncate }

    /// A call of a checkpoint, in the order in which they first come.
    package enum Point: String, Codable, Sendable, CaseIterable {
        case shmLock, shmMap, shmBarrier, unfetch, fileControl, syncWAL, readWAL, sizeMain, fetchMain, writeMain
        case truncateMain, syncMain, truncateWAL
        case other
    }
}

/// Whose checkpoint it is.
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
    ///     calls xUnfetch                 ← commit, which starts the WAL anew: m frames
    ///     sees that nothing of them is
    ///     backfilled, copies, and says
    ///     that N + n are
    ///                                    commit more than N + n: nobody copies the first
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

    /// The same with TRUNCATE, which takes the write lock before it reads the header, unless somebody else has it: then SQLite goes on
    /// without, and the one who has it commits.
    package static let walResetUnderTruncate = underTruncate(strangerRows: 4)

    /// The same where everything is copied before, so that emptying the file is all that TRUNCATE is to do: a step of ours that empties it makes sure
    /// of that first.
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

    /// A random one. Those moments are likelier at which others can do harm: while nothing is copied yet. In a third of them, somebody
    /// else has checkpointed just before.
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

/// What came of a schedule.
package struct ScheduleOutcome: Codable, Sendable {
    /// What is wrong with the database; nil when it is sound.
    package var damage: String?
    /// How many of the interventions took place: a checkpoint does not make every call.
    package var interventions: Int
    /// Which calls the checkpoints made, and how often.
    package var calls: [String: Int]
    /// Actions that SQLite refused because somebody held a lock.
    package var refusals: Int

    package init(damage: String?, interventions: Int, calls: [String: Int], refusals: Int) {
        self.damage = damage
        self.interventions = interventions
        self.calls = calls
        self.refusals = refusals
    }
}
