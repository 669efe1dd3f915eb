/// A place in the code, for errors and `status`.
package struct CallSite: Equatable, Sendable {
    package let file: StaticString
    package let line: UInt

    package init(_ file: StaticString, _ line: UInt) {
        self.file = file
        self.line = line
    }

    /// The call site of a caller that passed none.
    package static let unknown = CallSite("", 0)

    /// Whether both are the same literal. Comparing addresses is cheaper than comparing text; a false "no" only costs a redundant write.
    package static func == (one: CallSite, other: CallSite) -> Bool {
        guard one.file.hasPointerRepresentation, other.file.hasPointerRepresentation else { return false }
        return one.file.utf8Start == other.file.utf8Start && one.line == other.line
    }
}
