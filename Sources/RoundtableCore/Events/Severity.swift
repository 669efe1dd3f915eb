extension SharedDatabase {
    /// How serious an event or a finding of ``DatabaseDiagnosis`` is. Later cases are more serious.
    public enum Severity: String, Sendable, CaseIterable, Codable, Comparable {
        /// The normal course of work, such as the progress of a long operation.
        case info
        /// Something that users may want to know, such as the end of a problem. Nothing is to be done now.
        case notice
        /// Something is slow, grows or is at risk, or Roundtable works around a problem.
        case warning
        /// Something failed, and stays so until a person or a program acts, or a retry succeeds; or data are at risk now.
        case error

        private var rank: Int { Self.allCases.firstIndex(of: self)! }

        public static func < (a: Self, b: Self) -> Bool { a.rank < b.rank }
    }
}
