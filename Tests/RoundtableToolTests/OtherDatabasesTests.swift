import Foundation
import Roundtable
import RoundtableDiagnostics
import Testing

@testable import RoundtableKernel
@testable import RoundtableTool

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What `roundtable doctor` says about other databases of SQLite in the container of an App Group.
@Suite struct OtherDatabasesTests {
    /// What cannot be read is named, and not passed over. A database of SQLite that is no other library's is found by its header.
    @Test func unreadable() throws {
        let folder = try Folder()
        let container = folder.url.appendingPathComponent("Containers/Shared/AppGroup/1")
        try FileManager.default.createDirectory(at: container, withIntermediateDirectories: true)
        for name in ["secret", "lost", "any"] {
            try Data("text".utf8).write(to: container.appendingPathComponent(name))
        }
        let url = container.appendingPathComponent("a.db")
        try SharedDatabase.open(at: url, schema: .unmanaged, as: "app").close()
        var diagnosis = try DatabaseDiagnosis(ofDatabaseAt: url)
        diagnosis.findOtherDatabases()
        #expect(diagnosis.unknowns.isEmpty)
        System.withFaults([Fault(.open, errno: EACCES)]) { diagnosis.findOtherDatabases() }
        #expect(diagnosis.unknowns.first?.hasPrefix("Other databases: ") == true)
        #expect(diagnosis.unknowns.first?.contains(" files cannot be read, such as \(container.path)/") == true)
    }
}
