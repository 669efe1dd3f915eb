#if Service
    import GRDB

    /// The attribute `error.type` of metrics and spans. No other text of an error is shown, which may hold values of rows.
    enum ErrorType {
        /// Other errors count as `_OTHER`, as the conventions say, so that the number of time series is bounded.
        static let codes: [(ResultCode, name: String)] = [
            (.SQLITE_BUSY, "SQLITE_BUSY"), (.SQLITE_CONSTRAINT, "SQLITE_CONSTRAINT"), (.SQLITE_FULL, "SQLITE_FULL"),
            (.SQLITE_IOERR, "SQLITE_IOERR"), (.SQLITE_INTERRUPT, "SQLITE_INTERRUPT"),
            (.SQLITE_READONLY, "SQLITE_READONLY"), (.SQLITE_MISUSE, "SQLITE_MISUSE"),
            (.SQLITE_CORRUPT, "SQLITE_CORRUPT"),
        ]
        static let other = "_OTHER"

        /// The name of SQLite's code, or that of the error's type.
        static func name(of error: any Error) -> String {
            guard let error = error as? DatabaseError else { return "\(type(of: error))" }
            return codes.first { $0.0 == error.resultCode }?.name ?? other
        }
    }
#endif
