import GRDB
import RoundtableCore

/// An event of an extension: see ``SharedDatabase/Options/onExtensionEvent``.
public enum ExtensionEvent: Sendable {
    /// More rows were derived.
    case progress(ExtensionProgress)
    /// The triggers of these extensions were missing or wrong. A migration or another program has recreated their table, or has added an
    /// AFTER trigger to it. The extensions are being built again. Until that is done, using them fails.
    case rebuilding([String])
    /// Building has failed. If the cause is temporary, such as a lock or a suspension, building is retried in the background, and this
    /// event is reported once. Otherwise it is retried when an extension has to be built again, or when a program opens the database for
    /// writing. ``ExtensionError/notDerived(path:name:table:after:upTo:reason:)`` names the rows that cannot be derived. Other extensions
    /// are still built.
    case failed(any Error)
}
