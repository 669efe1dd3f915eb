import Foundation

/// What became of one side's WAL.
struct WALSizeFindings {
    /// Of frames, or of bytes.
    struct Sizes: Encodable {
        let max: Int
        let p50: Int
        let p99: Int
        /// The share of the samples beyond the bound.
        let beyond: Double

        init(_ values: [Int], bound: Int) {
            let values = values.sorted()
            max = values.last ?? 0
            p50 = values.percentile(0.5) ?? 0
            p99 = values.percentile(0.99) ?? 0
            beyond = values.isEmpty ? 0 : Double(values.filter { $0 > bound }.count) / Double(values.count)
        }
    }

    /// What a frozen reader did to it. Times in seconds; nil: never.
    struct Freeze: Encodable {
        /// Since the beginning of the trial.
        let frozenAt: Double
        let diedAt: Double?
        /// Until it was dead and the WAL small again.
        let maxFrames: Int
        let maxBytes: Int
        /// Since it was frozen: when a writer was told of it, and when an onlooker could see that the WAL is beyond the bound for it.
        let toldAfter: Double?
        let seenAfter: Double?
        let culprit: String?
        /// Since its death: until the WAL was within the bound.
        let framesRecoveredAfter: Double?
        let bytesRecoveredAfter: Double?

        enum CodingKeys: String, CodingKey {
            case culprit
            case frozenAt = "frozen_at_s"
            case diedAt = "died_at_s"
            case maxFrames = "max_frames"
            case maxBytes = "max_bytes"
            case toldAfter = "told_after_s"
            case seenAfter = "seen_after_s"
            case framesRecoveredAfter = "frames_recovered_after_s"
            case bytesRecoveredAfter = "bytes_recovered_after_s"
        }
    }

    let side: Side
    let seconds: Double
    let samples: [WALSample]
    /// Whether the trial ended before its time, since the WAL came to the limit.
    let wasTooLarge: Bool
    /// Of all samples but those from the freeze until the WAL should have recovered.
    let frames: Sizes
    let bytes: Sizes
    /// Samples without frames.
    let unread: Int
    let freeze: Freeze?
    let commits: Int
    let reads: Int
    let errors: Int
    let firstError: String?
    let times: Latencies

    init(
        side: Side,
        plan: WALSizePlan,
        start: Nanoseconds,
        seconds: Double,
        samples: [WALSample],
        results: [WALSizeResult],
        frozen: FrozenReader?,
        wasTooLarge: Bool
    ) {
        self.side = side
        self.seconds = seconds
        self.samples = samples
        self.wasTooLarge = wasTooLarge
        unread = samples.filter { $0.frames == nil }.count
        freeze = frozen.flatMap { Freeze($0, plan, start: start, samples, results) }
        let held = freeze.map { freeze in
            freeze.frozenAt...(freeze.diedAt.map { $0 + WALSizePlan.recovery.seconds } ?? .infinity)
        }
        let steady = samples.filter { sample in held.map { !$0.contains(sample.time.seconds) } ?? true }
        frames = Sizes(steady.compactMap(\.frames), bound: WALSizePlan.boundInFrames)
        bytes = Sizes(steady.map(\.bytes), bound: plan.boundInBytes)
        commits = results.reduce(0) { $0 + $1.commits }
        reads = results.reduce(0) { $0 + $1.reads }
        errors = results.reduce(0) { $0 + $1.errors }
        firstError = results.lazy.compactMap(\.firstError).first
        times = results.map(\.times).merged
    }
}

extension WALSizeFindings.Freeze {
    /// - returns: nil when nobody was frozen: the trial ended before.
    fileprivate init?(
        _ reader: FrozenReader,
        _ plan: WALSizePlan,
        start: Nanoseconds,
        _ samples: [WALSample],
        _ results: [WALSizeResult]
    ) {
        guard let frozen = reader.frozenAt else { return nil }
        let reports = results.flatMap(\.reports).filter { $0.pid == reader.pid && $0.time >= frozen }
        let told = reports.min { $0.time < $1.time }
        let during = samples.filter { $0.time + start >= frozen }
        frozenAt = (frozen - start).seconds
        diedAt = reader.diedAt.map { ($0 - start).seconds }
        maxFrames = during.compactMap(\.frames).max() ?? 0
        maxBytes = during.map(\.bytes).max() ?? 0
        toldAfter = told.map { ($0.time - frozen).seconds }
        seenAfter = reader.report.map { ($0.time - frozen).seconds }
        culprit = (told ?? reader.report)?.culprit
        func recovered(_ isWithinBound: (WALSample) -> Bool?) -> Double? {
            guard let died = reader.diedAt else { return nil }
            return samples.first { $0.time + start > died && isWithinBound($0) == true }
                .map { ($0.time + start - died).seconds }
        }
        framesRecoveredAfter = recovered { $0.frames.map { $0 <= WALSizePlan.boundInFrames } }
        bytesRecoveredAfter = recovered { $0.bytes <= plan.boundInBytes }
    }
}

extension WALSizeFindings: Encodable {
    enum CodingKeys: String, CodingKey {
        case side, seconds, frames, bytes, commits, reads, errors, freeze
        case wasTooLarge = "reached_limit"
        case unread = "samples_without_frames"
        case samples = "samples"
        case firstError = "first_error"
        case p50 = "p50_us"
        case p999 = "p999_us"
        case max = "max_us"
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(side.rawValue, forKey: .side)
        try container.encode(seconds.rounded(digits: 5), forKey: .seconds)
        try container.encode(frames, forKey: .frames)
        try container.encode(bytes, forKey: .bytes)
        try container.encode(samples.count, forKey: .samples)
        try container.encode(unread, forKey: .unread)
        try container.encode(wasTooLarge, forKey: .wasTooLarge)
        try container.encode(commits, forKey: .commits)
        try container.encode(reads, forKey: .reads)
        try container.encode(errors, forKey: .errors)
        try container.encodeIfPresent(firstError, forKey: .firstError)
        try container.encode(times.percentile(0.5).microseconds, forKey: .p50)
        try container.encode(times.percentile(0.999).microseconds, forKey: .p999)
        try container.encode(times.longest.microseconds, forKey: .max)
        try container.encodeIfPresent(freeze, forKey: .freeze)
    }
}
