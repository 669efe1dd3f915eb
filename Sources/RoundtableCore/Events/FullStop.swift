extension String {
    /// The text of an error of another library, for a sentence that goes on after it.
    package var withoutFullStop: String { hasSuffix(".") ? String(dropLast()) : self }
}
