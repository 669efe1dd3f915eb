extension String {
    /// The text, quoted so that a POSIX shell reads it as one word.
    package var shellQuoted: String {
        let isPlain = !isEmpty && utf8.allSatisfy(Self.plainBytes.contains)
        return isPlain ? self : "'" + replacing("'", with: "'\\''") + "'"
    }

    private static let plainBytes = Set(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./:=@%+,".utf8
    )
}
