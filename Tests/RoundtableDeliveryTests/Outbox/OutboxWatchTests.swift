import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableDelivery
@testable import RoundtableFiles

/// Folders of an outbox that are removed while a process waits for what comes into them (rules X10, X14).
@Suite(.timeLimit(.minutes(2))) struct OutboxWatchTests {
    /// The number of a removed folder is given to the next one, so that it looks the same.
    @Test func anOwnerNoticesRecreatedFolders() async throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let (isInside, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let drain = try db.outbox.drain(
            with: .entries { command in
                guard command.text == "held" else { return }
                isInside.signal()
                mayGoOn.wait()
            }
        )
        let outbox = try world.outbox()
        for round in 1...5 {
            // While the owner looks elsewhere.
            try await outbox.submit(AddEntry(text: "held"))
            await onThread { isInside.wait() }
            try FileManager.default.removeItem(at: world.folder.file("db.sqlite-outbox"))
            try await outbox.submit(AddEntry(text: "\(round)"))
            mayGoOn.signal()
            try await eventually("applied \(round)") { try db.texts().last == "\(round)" }
            try await eventually("removed") { world.files().isEmpty }
            try await outbox.submit(AddEntry(text: "\(round), later"))
            try await eventually("applied \(round), later") { try db.texts().last == "\(round), later" }
        }
        drain.cancel()
    }

    /// A sender that waits writes its question again, into the new folder.
    @Test func aSenderAsksAgainInRecreatedFolders() async throws {
        let world = try OutboxWorld()
        let db = try world.open()
        let round = world.rounds(db, .entries())
        let submission = try await world.outbox().submit(AddEntry(text: "A"))
        _ = try await onThread { Result { try round() } }.get()
        let outcome = Task { try await submission.outcome(within: .seconds(60)) }
        for round in 1...5 {
            try await eventually("asked") { world.files("questions").count == 1 }
            let outbox = world.folder.file("db.sqlite-outbox")
            try FileManager.default.moveItem(at: outbox, to: world.folder.file("away-\(round)"))
        }
        try await eventually("asked again") { world.files("questions").count == 1 }
        _ = try await onThread { Result { try round() } }.get()
        #expect(try await outcome.value == .applied)
    }
}
