extension SharedDatabase.CheckpointResult: CustomStringConvertible {
    public var description: String {
        if frames == 0 { return "the WAL is empty" }
        if isComplete {
            return frames == 1
                ? "the only frame is in the database file" : "all \(frames.of("frame")) are in the database file"
        }
        let left = frames - backfilledFrames
        return "\(left.grouped) of \(frames.of("frame")) \(left == 1 ? "is" : "are") in the WAL only"
    }
}
