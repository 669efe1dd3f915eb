import RoundtableKernel
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// What is decided about files that an app shares with its extensions.
@Suite struct ContainerTests {
    @Test(arguments: [
        ("/private/var/mobile/Containers/Shared/AppGroup/6F0C1B5E/app.sqlite", true),
        ("/private/var/mobile/Containers/Shared/AppGroup/6F0C1B5E/Database/app.sqlite", true),
        ("/Users/me/Library/Developer/CoreSimulator/Devices/1/data/Containers/Shared/AppGroup/2/app.sqlite", true),
        ("/Users/me/Library/Group Containers/group.com.example/app.sqlite", true),
        ("/Users/me/Library/Group Containers/group.com.example", false),
        ("/private/var/mobile/Containers/Shared/AppGroup/6F0C1B5E", false),
        ("/private/var/mobile/Containers/Data/Application/6F0C1B5E/Documents/app.sqlite", false),
        ("/private/var/mobile/Containers/Shared/SystemGroup/6F0C1B5E/app.sqlite", false),
        ("/Users/me/Containers/Shared AppGroup/1/app.sqlite", false),
        ("/home/me/app.sqlite", false),
        ("app.sqlite", false),
        ("/", false),
        ("", false),
    ])
    func isInAnAppGroup(path: String, expected: Bool) {
        #expect(AppGroupContainer.holds(path) == expected)
    }

    /// Nobody asked for a class: that of the database holds for what contains the same, and the database is left alone.
    @Test(arguments: ProtectionClass.allCases)
    func companionsFollowTheDatabase(own: ProtectionClass) {
        let files = FileProtection(present: [.database: own, .wal: .none, .shm: .complete, .coord: .complete])
        let changes = files.changes(to: nil)
        #expect(changes[.database] == nil)
        #expect(changes[.wal, default: .none] == own)
        #expect(changes[.shm, default: .complete] == own)
        // Readable whenever anybody can be running.
        #expect(changes[.coord] == max(own, .untilFirstUnlock))
    }

    @Test(arguments: ProtectionClass.allCases, ProtectionClass.allCases)
    func allGetWhatWasAskedFor(wanted: ProtectionClass, current: ProtectionClass) {
        let files = FileProtection(present: [.database: current, .wal: current, .shm: current, .coord: current])
        let changes = files.changes(to: wanted)
        for member in [FileProtection.Member.database, .wal, .shm] {
            #expect(changes[member] == (current == wanted ? nil : wanted))
        }
        #expect(changes[.coord, default: current] >= .untilFirstUnlock)
    }

    /// What is not there, or not told, is not touched: on a Mac, in the simulator, for a file that SQLite has not made yet.
    @Test func whatIsNotThere() {
        #expect(FileProtection(present: [:]).changes(to: .complete).isEmpty)
        #expect(FileProtection(present: [.wal: .none]).changes(to: nil).isEmpty)
        #expect(FileProtection(present: [.database: .none]).changes(to: .complete) == [.database: .complete])
    }

    @Test func theGroupThatIsMissingIsNamed() {
        let error = SharedDatabaseError.noAppGroup("group.com.example")
        #expect("\(error)".contains("'group.com.example'") && "\(error)".contains("entitlements"))
    }
}
