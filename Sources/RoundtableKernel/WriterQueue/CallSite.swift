/// A place in the code, for errors and `status`.
package struct CallSite: Sendable {
    package let file: StaticString
    package let line: UInt

    package init(_ file: StaticString, _ line: UInt) {
        self.file = file
        self.line = line
    }

    /// For those who did not tell.
    package static let unknown = CallSite("", 0)

    /// Whether this is the same literal: cheaper than comparing text, and wrong only towards writing once more.
    func isSame(as other: CallSite) -> Bool {
        guard file.hasPointerRepresentation, other.file.hasPointerRepresentation else { return false }
        return file.utf8Start == other.file.utf8Start && line == other.line
    }
}
