import Foundation
import GRDB
import RoundtableUnitSupport
import Synchronization
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableFiles
@testable import RoundtableKernel

/// Classes as on a device: each file has one, whatever its name is, and new files all have the same one.
private final class PlayedProtectionClasses: Sendable {
    private let known = Mutex<[FileIdentity: ProtectionClass]>([:])
    private let ofNewFiles: ProtectionClass
    private let maySet: Bool

    init(ofNewFiles: ProtectionClass, maySet: Bool = true) {
        (self.ofNewFiles, self.maySet) = (ofNewFiles, maySet)
    }

    func number(_ path: String) -> FileIdentity? {
        var status = stat()
        return lstat(path, &status) == 0 ? FileIdentity(status) : nil
    }

    func ofFile(_ path: String) -> ProtectionClass? {
        number(path).map { file in known.withLock { $0[file] ?? ofNewFiles } }
    }

    func set(_ value: ProtectionClass, _ path: String) {
        if let file = number(path) { known.withLock { $0[file] = value } }
    }

    var classes: ProtectionClasses {
        ProtectionClasses(
            ofFile: { self.ofFile($0) },
            set: { value, path in
                guard self.maySet else { throw SystemError(call: .chmod, errno: EPERM, path: path) }
                self.set(value, path)
            }
        )
    }
}

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
        #expect(AppContainer.isShared(path) == expected)
    }

    /// iOS kills for locks in the containers of App Groups; macOS kills for none.
    @Test(arguments: [
        (
            "/private/var/mobile/Containers/Shared/AppGroup/6F0C/a/b",
            "/private/var/mobile/Containers/Shared/AppGroup/6F0C"
        ),
        ("/Users/me/data/Containers/Shared/AppGroup/2/a.db", "/Users/me/data/Containers/Shared/AppGroup/2"),
        ("/private/var/mobile/Containers/Shared/AppGroup/6F0C", nil),
        ("/private/var/mobile/Containers/Data/Application/6F0C/a.db", nil),
        ("/Users/me/Library/Group Containers/group.com.example/app.sqlite", nil), ("/home/me/a.db", nil), ("", nil),
    ])
    func groupOnIOS(path: String, group: String?) {
        #expect(AppContainer.groupOnIOS(holding: path) == group)
    }

    /// If no class was requested, the class of the database applies to its companions, and the database is left alone.
    @Test(arguments: ProtectionClass.allCases)
    func companionsFollowTheDatabase(own: ProtectionClass) {
        let files: [String: ProtectionClass] = [
            "": own, "-wal": .none, "-shm": .complete, ControlBlock.ending: .complete,
        ]
        let changes = FileProtection.changes(files, to: nil)
        #expect(changes[""] == nil)
        #expect(changes["-wal", default: .none] == own)
        // They are mapped: a page of a stricter class would fault while the device is locked.
        #expect(changes["-shm"] == max(own, .untilFirstUnlock))
        #expect(changes[ControlBlock.ending] == max(own, .untilFirstUnlock))
    }

    @Test(arguments: ProtectionClass.allCases, ProtectionClass.allCases)
    func allGetWhatWasAskedFor(wanted: ProtectionClass, current: ProtectionClass) {
        let files = ["": current, "-wal": current, "-shm": current, ControlBlock.ending: current]
        let changes = FileProtection.changes(files, to: wanted)
        for ending in ["", "-wal"] {
            #expect(changes[ending] == (current == wanted ? nil : wanted))
        }
        for ending in ["-shm", ControlBlock.ending] {
            #expect(changes[ending, default: current] == max(wanted, .untilFirstUnlock))
        }
    }

    /// The names that Foundation's types have, and no other, are classes, including the classes of iOS 17.
    @Test func namesOfClasses() {
        let names = [
            "Complete", "CompleteUnlessOpen", "CompleteWhenUserInactive", "CompleteUntilFirstUserAuthentication",
            "None",
        ]
        #expect(names.map { ProtectionClass(named: "NSFileProtection" + $0) } == ProtectionClass.allCases.sorted())
        #expect(ProtectionClass(named: "NSFileProtectionSomethingNewer") == nil)
        #expect(ProtectionClass(rawValue: 7).map { $0 < .untilFirstUnlock } == true)
    }

    /// **Rule B8** holds on a system that gives each new file a class, through opening, writing, a control block that is lost and found again, and
    /// reading. Before each system call of this thread, no mapped file that has a name is stricter than C.
    @Test(arguments: ProtectionClass.allCases)
    func noMappedFileIsStricter(classOfNewFiles: ProtectionClass) throws {
        let folder = try TemporaryFolder()
        let url = folder.file("db.sqlite")
        let block = ControlBlock.path(forDatabaseAt: url.path)
        let classes = PlayedProtectionClasses(ofNewFiles: classOfNewFiles)
        let looks = Shared(0)
        try ProtectionClasses.$ofTest.withValue(classes.classes) {
            let shm = url.path + "-shm"
            let db = try System.withInterposed({ _ in
                guard let found = classes.ofFile(block) else { return }
                looks.change { $0 += 1 }
                #expect(found >= .untilFirstUnlock)
            }) {
                let db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
                #expect(classes.ofFile(url.path) == classOfNewFiles)
                #expect(try #require(classes.ofFile(shm)) >= .untilFirstUnlock)
                // The other name keeps the file, so that its number is not given to the next one.
                link(block, folder.file("lost").path)
                unlink(block)
                db.seat.rejoin()
                #expect(db.seat.unusable == nil)
                #expect(classes.number(block) != classes.number(folder.file("lost").path))
                return db
            }
            // Another program makes them strict.
            classes.set(.complete, block)
            classes.set(.complete, shm)
            let answer = try SharedDatabase.openReadOnly(at: url, schema: .unmanaged, as: "widget")
            guard case .available(let reader) = answer else { return #expect(Bool(false), "\(answer)") }
            #expect(try #require(classes.ofFile(block)) >= .untilFirstUnlock)
            #expect(try #require(classes.ofFile(shm)) >= .untilFirstUnlock)
            try reader.close()
            try db.close()
        }
        #expect(looks.value > 0)
    }

    /// A snapshot file that is replaced keeps its class, if no other one was requested.
    @Test(arguments: ProtectionClass.allCases) func aSnapshotFileKeepsItsClass(own: ProtectionClass) throws {
        let folder = try TemporaryFolder()
        let url = folder.file("state")
        let classes = PlayedProtectionClasses(ofNewFiles: .untilFirstUnlock)
        try ProtectionClasses.$ofTest.withValue(classes.classes) {
            let store = SnapshotStore(url, version: 1, writer: "w", options: .init())
            _ = try store.write([1], .json)
            let first = classes.number(url.path)
            classes.set(own, url.path)
            _ = try store.write([2], .json)
            #expect(classes.number(url.path) != first && classes.ofFile(url.path) == own)
        }
    }

    /// A process that may not make a control block readable does not map it, and works without it.
    @Test func aBlockThatStaysStrictIsNotUsed() throws {
        let folder = try TemporaryFolder()
        let url = folder.file("db.sqlite")
        let classes = PlayedProtectionClasses(ofNewFiles: .complete, maySet: false)
        try ProtectionClasses.$ofTest.withValue(classes.classes) {
            let db = try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: "app")
            guard case .system(let error) = db.seat.unusable else {
                return #expect(Bool(false), "\(String(describing: db.seat.unusable))")
            }
            #expect(error.errno == EPERM)
            let left = try FileManager.default.contentsOfDirectory(atPath: url.deletingLastPathComponent().path)
            #expect(!left.contains { $0.contains(".new") })
            try db.write { _ = try Player(name: "A").inserted($0) }
            try db.close()
        }
    }

    /// Files that are missing, or whose class is unknown, are not touched: on a Mac, in the simulator, for a file that SQLite has not made yet.
    @Test func whatIsNotThere() {
        #expect(FileProtection.changes([:], to: .complete).isEmpty)
        #expect(FileProtection.changes(["-wal": .none], to: nil).isEmpty)
        #expect(FileProtection.changes(["": .none], to: .complete) == ["": .complete])
    }

    @Test func theGroupThatIsMissingIsNamed() {
        let error = SharedDatabaseError.noAppGroup("group.com.example")
        #expect("\(error)".contains("'group.com.example'") && "\(error)".contains("entitlements"))
    }
}
