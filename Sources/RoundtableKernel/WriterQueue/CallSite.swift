/// A place in the code, for errors and `status`.
package struct CallSite: Sendable {
    package let file: StaticString
    package let line: UInt

    package init(_ file: StaticString, _ line: UInt) {
        self.file = file
        self.line = line
    }

    /// The call site of a caller that passed none.
    package static let unknown = CallSite("", 0)

    /// Whether both are the same literal. Comparing addresses is cheaper than comparing text; a false "no" only costs a redundant write.
    func isSame(as other: CallSite) -> Bool {
        guard file.hasPointerRepresentation, other.file.hasPointerRepresentation else { return false }
        return file.utf8Start == other.file.utf8Start && line == other.line
    }

    /// Whether both are unknown, or the same literal.
    package static func areSame(_ one: CallSite?, _ other: CallSite?) -> Bool {
        guard let one, let other else { return one == nil && other == nil }
        return one.isSame(as: other)
    }
}
