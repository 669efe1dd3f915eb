extension String {
    /// As a POSIX shell takes it for one word.
    package var shellQuoted: String {
        let isPlain = !isEmpty && utf8.allSatisfy(Self.plainBytes.contains)
        return isPlain ? self : "'" + replacing("'", with: "'\\''") + "'"
    }

    private static let plainBytes = Set(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./:=@%+,".utf8
    )
}
