import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableFiles

/// Waiting for a snapshot file to be replaced (rule V6).
@Suite(.serialized, .timeLimit(.minutes(2))) struct SnapshotValuesTests {
    let folder: TemporaryFolder
    let url: URL

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("folder/number")
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    }

    private var file: SnapshotFile<Int> { SnapshotFile(at: url, as: "app") }

    /// What a sequence has delivered.
    private func follow(
        _ file: SnapshotFile<Int>
    ) -> (received: Shared<[SnapshotReading<Int>]>, task: Task<Void, Never>) {
        let received = Shared<[SnapshotReading<Int>]>([])
        let task = Task { for await reading in file.values() { received.change { $0.append(reading) } } }
        return (received, task)
    }

    @Test func theFirstAndThenEachThatReplacesIt() async throws {
        let (received, task) = follow(file)
        try await eventually("none yet") { received.value == [.absent] }
        for number in 1...20 {
            // It is another writer each time: sequences alone do not show the change.
            try await file.write(number)
            try await eventually("received \(number)") { received.value.last?.value == number }
        }
        #expect(received.value.count == 21)
        try FileManager.default.removeItem(at: url)
        try await eventually("removed") { received.value.last == .absent }
        try Data("x".utf8).write(to: url, options: .atomic)
        try await eventually("foreign") { received.value.last == .damaged(.foreign) }
        // The same sequence again, with another token.
        for number in 1...3 {
            try FileManager.default.removeItem(at: url)
            try await file.write(number)
            try await eventually("received \(number)") { received.value.last?.value == number }
        }
        task.cancel()
        await task.value
    }

    @Test func aBurstIsDeliveredAsItsLastValue() async throws {
        let values = file.values()
        let writer = file
        var iterator = values.makeAsyncIterator()
        #expect(await iterator.next() == .absent)
        for number in 1...100 { try await writer.write(number) }
        #expect(await iterator.next()?.value == 100)
        try await writer.write(101)
        #expect(await iterator.next()?.value == 101)
    }

    /// The value is replaced while it is looked at, and while it is read.
    @Test func nothingIsDeliveredTwice() async throws {
        let (received, task) = follow(file)
        try await eventually("none yet") { received.value == [.absent] }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                let file = file
                // Each is a byte longer than the one before, or shorter.
                group.addTask { for number in 1...500 { try await file.write(number % 2 == 0 ? number : -number) } }
            }
            try await group.waitForAll()
        }
        let last = try file.read()
        try await eventually("the last") { received.value.last == last }
        task.cancel()
        await task.value
        let twice = zip(received.value, received.value.dropFirst()).filter { $0 == $1 }.map(\.0)
        #expect(twice.isEmpty, "\(twice) of \(received.value.count)")
    }

    /// Gone when it is read, and back when it is looked at again.
    @Test func theSameFileComesBack() async throws {
        let (store, aside) = (SnapshotStore(url, version: 1, writer: "w", options: .init()), folder.file("aside"))
        _ = try store.write(Array("v".utf8), .json)
        let changes = SnapshotChanges(of: store)
        #expect(await changes.next())
        try FileManager.default.moveItem(at: url, to: aside)
        let contents = try changes.contents()
        guard case .absent = contents else {
            Issue.record("it is there: \(contents)")
            return
        }
        try FileManager.default.moveItem(at: aside, to: url)
        let isBack = Shared(false)
        let task = Task { if await changes.next() { isBack.change { $0 = true } } }
        defer { task.cancel() }
        try await eventually("it is back") { isBack.value }
    }

    @Test func manyFollowOneFile() async throws {
        let followers = (0..<50).map { _ in follow(file) }
        for number in 1...5 { try await file.write(number) }
        for (received, task) in followers {
            try await eventually("the last") { received.value.last?.value == 5 }
            task.cancel()
            await task.value
        }
    }

    /// Where the folder is not there yet, is removed, or is another one.
    @Test func theFolderComesAndGoes() async throws {
        try FileManager.default.removeItem(at: url.deletingLastPathComponent())
        let (received, task) = follow(file)
        try await eventually("none yet") { received.value == [.absent] }
        for number in 1...2 {
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try await file.write(number)
            try await eventually("received \(number)") { received.value.last?.value == number }
            try await file.write(number + 10)
            try await eventually("received \(number + 10)") { received.value.last?.value == number + 10 }
            try FileManager.default.removeItem(at: url.deletingLastPathComponent())
            try await eventually("removed") { received.value.last == .absent }
        }
        task.cancel()
        await task.value
    }

    /// File systems give the number of a removed folder to the next one, so that it looks the same.
    @Test func theFolderIsRecreatedAtOnce() async throws {
        let path = url.deletingLastPathComponent().path
        let (received, task) = follow(file)
        try await eventually("none yet") { received.value == [.absent] }
        for number in 1...20 {
            try await file.write(number)
            try await eventually("received \(number)") { received.value.last?.value == number }
            try FileManager.default.removeItem(at: url)
            #expect(rmdir(path) == 0 && mkdir(path, 0o755) == 0)
            // The last of two is received, though the first may not be.
            try await file.write(number + 100)
            try await eventually("received \(number + 100)") { received.value.last?.value == number + 100 }
        }
        task.cancel()
        await task.value
    }

    /// Another one has its path afterwards, or none.
    @Test func aFolderAboveIsMoved() async throws {
        let (above, path) = (folder.file("above"), folder.file("above/between/folder").path)
        func makeFolder() throws {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        let file = SnapshotFile<Int>(at: URL(fileURLWithPath: path + "/number"), as: "app")
        try makeFolder()
        let (received, task) = follow(file)
        for number in 1...5 {
            try await file.write(number)
            try await eventually("received \(number)") { received.value.last?.value == number }
            try FileManager.default.moveItem(at: above, to: folder.file("moved \(number)"))
            if number % 2 == 0 {
                try await eventually("gone") { received.value.last == .absent }
            }
            try makeFolder()
        }
        try FileManager.default.removeItem(at: above)
        try FileManager.default.moveItem(at: folder.file("moved 3"), to: above)
        try await eventually("received 3") { received.value.last?.value == 3 }
        task.cancel()
        await task.value
    }

    /// `current` leads to `v1`, then to `v2`; as a folder, or as the file itself. A watch is where a link leads, not where it lies.
    @Test(arguments: [true, false])
    func aLinkComesToLeadElsewhere(isFolder: Bool) async throws {
        let files = FileManager.default
        func version(_ number: Int) -> SnapshotFile<Int> {
            SnapshotFile(at: folder.file("v\(number)/number"), as: "app")
        }
        let link = isFolder ? folder.file("current") : url
        /// In one go, as `ln -sfn` and `mv -T` do.
        func lead(to number: Int) throws {
            let next = link.deletingLastPathComponent().appendingPathComponent("next")
            let target = folder.file("v\(number)" + (isFolder ? "" : "/number")).path
            try files.createSymbolicLink(atPath: next.path, withDestinationPath: target)
            #expect(rename(next.path, link.path) == 0)
        }
        for number in 1...3 {
            try files.createDirectory(at: folder.file("v\(number)"), withIntermediateDirectories: true)
            try await version(number).write(number)
        }
        try lead(to: 1)
        let path = isFolder ? link.appendingPathComponent("number") : link
        let (received, task) = follow(SnapshotFile<Int>(at: path, as: "reader"))
        for number in 1...3 {
            if number > 1 { try lead(to: number) }
            try await eventually("received \(number)") { received.value.last?.value == number }
            try await version(number).write(number + 10)
            try await eventually("received \(number + 10)") { received.value.last?.value == number + 10 }
        }
        // No link any more.
        try files.removeItem(at: link)
        try await eventually("gone") { received.value.last == .absent }
        if isFolder { try files.createDirectory(at: link, withIntermediateDirectories: true) }
        let plain = SnapshotFile<Int>(at: path, as: "app")
        for number in 21...23 {
            try await plain.write(number)
            try await eventually("received \(number)") { received.value.last?.value == number }
        }
        task.cancel()
        await task.value
    }

    #if os(Linux)
        /// The file is written as by cp(1). With kqueue, folders do not report that.
        @Test func itIsOverwrittenInItsPlace() async throws {
            try await file.write(1)
            let saved = try Data(contentsOf: url)
            try await file.write(2)
            let (received, task) = follow(file)
            try await eventually("received 2") { received.value.last?.value == 2 }
            try saved.write(to: url)
            try await eventually("received 1") { received.value.last?.value == 1 }
            // Its header is there before its value is.
            try saved.prefix(128).write(to: url)
            try await eventually("cut off") {
                if case .damaged(.truncated) = received.value.last { true } else { false }
            }
            try saved.write(to: url)
            try await eventually("whole") { received.value.last?.value == 1 }
            task.cancel()
            await task.value
        }
    #endif

    /// What the system does not let this process read may be readable later, which no folder reports.
    @Test(.enabled(if: geteuid() != 0, "the superuser may read everything"))
    func itCanBeReadAgain() async throws {
        try await file.write(1)
        try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: url.path)
        let (received, task) = follow(file)
        try await eventually("unreadable") {
            if case .damaged(.unreadable(.file(_, .noPermission))) = received.value.last { true } else { false }
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: url.path)
        try await eventually("readable") { received.value.last?.value == 1 }
        task.cancel()
        await task.value
    }

    @Test func noURLOfAFile() async throws {
        let web = SnapshotFile<Int>(at: try #require(URL(string: "https://example.com/state")), as: "app")
        let (received, task) = follow(web)
        try await eventually("received") { received.value.count == 1 }
        task.cancel()
        await task.value
    }

    @Test func aCancelledTaskEndsAtOnce() async throws {
        let task = Task {
            var count = 0
            for await _ in file.values() { count += 1 }
            return count
        }
        task.cancel()
        #expect(await task.value <= 1)
    }

    #if os(Linux)
        /// How many watches of this process are on the folder: other tests have theirs.
        private func watches() throws -> Int {
            let folder = url.deletingLastPathComponent().path
            let attributes = try FileManager.default.attributesOfItem(atPath: folder)
            let inode = try #require(attributes[.systemFileNumber] as? NSNumber).uint64Value
            return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fdinfo").filter { name in
                let info = try? String(contentsOfFile: "/proc/self/fdinfo/\(name)", encoding: .utf8)
                return info?.contains(" ino:\(String(inode, radix: 16)) ") == true
            }.count
        }

        /// Neither a watch nor what wakes it stays behind, nor the thread, which holds both.
        @Test func nothingStaysOfCancelledSequences() async throws {
            for _ in 0..<10 {
                let followers = (0..<100).map { _ in follow(file) }
                for (received, _) in followers { try await eventually("received") { !received.value.isEmpty } }
                try await eventually("one watch") { try watches() == 1 }
                for (_, task) in followers { task.cancel() }
                for (_, task) in followers { await task.value }
                // The task is released without being cancelled.
                for _ in 0..<10 {
                    var iterator = file.values().makeAsyncIterator()
                    _ = await iterator.next()
                }
                #expect(FolderNews.count(of: url.deletingLastPathComponent().path) == 0)
                try await eventually("no watch is left") { try watches() == 0 }
            }
        }
    #endif
}
