import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableFiles

/// When what was written is on the disk, and that nothing which others have written meanwhile is replaced (rules V2, V7).
@Suite struct SnapshotStoreTests {
    private let folder: TemporaryFolder
    private let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("state")
    }

    private func store(_ durability: CommitDurability = .machine) -> SnapshotStore {
        var options = SnapshotFileOptions()
        options.durability = durability
        return SnapshotStore(url, version: 1, writer: "w", options: options)
    }

    private func value() throws -> [UInt8]? {
        if case .whole(_, let value) = try store().contents() { Array(value) } else { nil }
    }

    /// The file first, before it has its name; then the folder. Each sync fails by itself.
    @Test func eachWriteSyncsTwice() throws {
        let store = store()
        _ = try store.write([1], .json)
        let failed = SnapshotFileError.file(path: url.path, .system(call: "fsync", errno: EIO))
        System.withFaults([Fault(.fsync, errno: EIO, times: 1)]) {
            _ = #expect(throws: failed) { try store.write([2], .json) }
        }
        #expect(try value() == [1])
        System.withFaults([Fault(.fsync, errno: EIO, skipping: 1, times: 1)]) {
            _ = #expect(throws: SnapshotFileError.notDurable(path: url.path, errno: EIO)) {
                try store.write([3], .json)
            }
        }
        #expect(try value() == [3])
        try System.withFaults([Fault(.fsync, errno: EIO, skipping: 2, times: 1)]) { _ = try store.write([4], .json) }
        #expect(try value() == [4])
    }

    /// In this order: a name that is on the disk before the bytes are would be that of a damaged file after a power cut.
    @Test func theFileIsSyncedBeforeItHasItsName() throws {
        let store = store()
        let calls = Shared<[SystemCall]>([])
        try System.withInterposed { call in
            calls.change { $0.append(call) }
        } _: {
            _ = try store.write([1], .json)
        }
        let order = calls.value.filter { [.write, .fsync, .rename].contains($0) }
        #expect(order == [.write, .fsync, .rename, .fsync])
    }

    @Test func withoutDurabilityNothingIsSynced() throws {
        let store = store(.process)
        try System.withFaults([Fault(.fsync, errno: EIO)]) { _ = try store.write([1], .json) }
        #expect(try value() == [1])
    }

    ///     a publisher                      another
    ///     looks: it holds 1
    ///     fetches 2, writes and syncs it
    ///                                      fetches 3, and replaces the file
    ///     looks again
    @Test func aFileThatIsReplacedDuringTheSync() throws {
        let (store, other) = (store(), store())
        _ = try store.write([1], .json)
        let look = store.look()
        let syncs = Shared(0)
        let header = try System.withInterposed { call in
            guard call == .fsync else { return }
            syncs.change { $0 += 1 }
            if syncs.value == 1 { #expect(throws: Never.self) { try other.write([3], .json) } }
        } _: {
            try store.write([2], .json, replacing: look)
        }
        #expect(syncs.value == 1 && header == nil)
        #expect(try value() == [3])
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == ["state"])
        // It is not for ever.
        #expect(try store.write([2], .json, replacing: store.look()) != nil)
        #expect(try value() == [2])
    }
}
