import CRoundtableShims

/// The log of a database whose options do not say where events go.
package enum DefaultLog {
    /// Whether there is none. It is false in programs, and true in the tests of this package, which set it before they begin.
    package static var isOff: Bool {
        get { rt_default_log_is_off() != 0 }
        set { rt_set_default_log_off(newValue ? 1 : 0) }
    }
}
