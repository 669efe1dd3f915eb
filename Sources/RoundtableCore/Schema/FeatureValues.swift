/// What a program says for a feature in ``SharedDatabase/Options`` or in a ``SharedSchema``: values of types that only the feature knows.
package struct FeatureValues: Sendable {
    private var values: [ObjectIdentifier: any Sendable] = [:]

    init() {}

    /// The value of a type; nil where the program has set none.
    package subscript<Value: Sendable>(_ type: Value.Type) -> Value? {
        get { values[ObjectIdentifier(type)] as? Value }
        set { values[ObjectIdentifier(type)] = newValue }
    }
}
