import CRoundtableShims

extension System {
    /// Whether this process ignores a signal. It inherits that from the program that started it.
    package static func ignoresSignal(_ number: Int32) -> Bool { rt_signal_is_ignored(number) != 0 }
}
