import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// The transitions of the state of an observatory. Connections are named by a letter, feeds and positions by a number.
@Suite struct ObservatoryStateTests {
    private typealias State = ObservatoryState<String, Int, Int>

    private func observation() -> PersistentObservation {
        PersistentObservation(onWriter: false, notifiesAgain: true, fail: { _ in }) { _, _, _ in
            AnyDatabaseCancellable {}
        }
    }

    private func running(_ connection: String = "a", _ feed: Int = 1) -> State {
        var state = State()
        _ = state.start(connection)
        state.run(feed)
        return state
    }

    /// The connection is known while the feed starts, but no observation gets it before the missed changes were delivered.
    @Test func startingIsNotRunning() {
        var state = State()
        #expect(state.connection == nil && state.running == nil && state.lastPosition == nil)
        let isPaused = state.start("a")
        #expect(!isPaused && state.connection == "a" && state.running == nil)
        state.run(1)
        #expect(state.connection == "a" && state.running?.connection == "a" && state.running?.feed == 1)
    }

    /// A feed that starts while delivery is paused starts paused, and is resumed with the bridges.
    @Test func pausing() {
        var state = State()
        let before = state.pause()
        #expect(before.feed == nil && before.bridges.isEmpty)
        let isPaused = state.start("a")
        #expect(isPaused)
        state.run(1)
        state.valueBridge = ObserverBridge(schedule: { _ in true }, didNotify: { _ in })
        state.writerBridge = ObserverBridge(schedule: { _ in true }, didNotify: { _ in })
        let resumed = state.resume()
        #expect(resumed.feed == 1 && resumed.bridges.count == 2 && !state.isPaused)
    }

    // MARK: Parking

    /// The next feed continues where the last one stopped, however often the state is parked meanwhile.
    @Test func thePositionIsKept() {
        var state = running()
        state.add(observation())
        let parked = state.park(at: 7)
        #expect(parked.connection == "a" && parked.observations.count == 1)
        #expect(state.connection == nil && state.lastPosition == 7)
        let again = state.park(at: nil)
        #expect(again.connection == nil && again.observations.isEmpty && state.lastPosition == 7)
        let isNeeded = state.unpark()
        #expect(isNeeded && state.lastPosition == 7)
        let mustRestart = [state.beginRestart(), state.beginRestart()]
        #expect(mustRestart == [true, false])
        // An observatory that is not parked is not unparked, and nothing restarts.
        let unparkedAgain = [state.unpark(), state.beginRestart()]
        #expect(unparkedAgain == [false, false])
        let resting = state.park(at: nil)
        #expect(resting.connection == nil && state.lastPosition == 7)
    }

    /// Without observations, no connection is opened after parking.
    @Test func aConnectionIsOnlyOpenedIfItIsNeeded() {
        func isNeeded(_ change: (inout State) -> Void) -> Bool {
            var state = State()
            _ = state.park(at: nil)
            change(&state)
            let isNeeded = state.unpark()
            let mustRestart = state.beginRestart()
            #expect(mustRestart == isNeeded)
            return isNeeded
        }
        #expect(!isNeeded { _ in })
        #expect(isNeeded { $0.add(observation()) })
        #expect(isNeeded { $0.awaitWriter() })
        #expect(
            !isNeeded {
                let ended = observation()
                $0.add(ended)
                _ = $0.remove(ended)
            }
        )
        #expect(
            !isNeeded {
                $0.awaitWriter()
                _ = $0.endAwaitingWriter()
            }
        )
    }

    /// A connection is closed when the last observation has started on it, and counts as open until its closing has begun.
    @Test func lentConnections() {
        var state = running()
        state.borrow()
        state.borrow()
        _ = state.park(at: 1)
        state.lend("a")
        var returned = state.takeReturned()
        #expect(returned == [] && state.unclosed == 1)
        returned = state.giveBack()
        #expect(returned == [] && state.lent == ["a"])
        returned = state.giveBack()
        #expect(returned == ["a"] && state.lent == [] && state.unclosed == 1)
        // The connection is taken once.
        returned = state.takeReturned()
        #expect(returned == [] && state.unclosed == 1)
        // Another connection is released before the first begins to close.
        state.borrow()
        state.lend("b")
        state.didBeginClosing(1)
        #expect(state.unclosed == 1 && state.lent == ["b"])
    }

    // MARK: Closing

    /// An added observation is ended by closing, or refused because the observatory is closed: never neither, never both.
    @Test func closing() {
        var state = running()
        let consumer = ChangeBuffer(capacity: 1)
        let isAdded = state.add(consumer)
        let number = state.addFollower {}
        #expect(isAdded && number != nil && state.followers.count == 1)
        let ended = state.close()
        #expect(ended.running?.connection == "a" && ended.consumers.count == 1 && ended.followers.count == 1)
        #expect(state.isClosed && state.connection == nil)
        let isAddedLate = state.add(ChangeBuffer(capacity: 1))
        let lateNumber = state.addFollower {}
        #expect(!isAddedLate && lateNumber == nil)
        let endedAgain = state.close()
        #expect(endedAgain.running == nil && endedAgain.consumers.isEmpty && endedAgain.followers.isEmpty)
    }

    @Test func closedWhileParked() {
        var state = running()
        _ = state.park(at: 7)
        let ended = state.close()
        #expect(ended.running == nil && ended.lastPosition == 7 && state.lastPosition == nil)
        let isNeeded = state.unpark()
        #expect(!isNeeded && state.isClosed)
        let parked = state.park(at: nil)
        #expect(parked.connection == nil && state.isClosed)
    }

    @Test func followersAreRemovedByNumber() {
        var state = State()
        let numbers = (0..<3).compactMap { _ in state.addFollower {} }
        #expect(Set(numbers).count == 3)
        let removed = state.removeFollower(numbers[1])
        #expect(removed != nil && Set(state.followers.keys) == [numbers[0], numbers[2]])
        let removedAgain = state.removeFollower(numbers[1])
        #expect(removedAgain == nil)
    }
}

/// What is asked of an observatory while its connection is being opened.
@Suite struct ObservatoryTests {
    let folder: TemporaryFolder
    let db: SharedDatabase

    init() throws {
        folder = try TemporaryFolder()
        db = try SharedDatabase.open(at: folder.file("players.sqlite"), schema: SharedSchema(migrator()), as: "a")
    }

    @Test func observationsThatStartTogetherShareAConnection() async throws {
        let connections = await withTaskGroup(of: ObservationConnection?.self) { group in
            for _ in 0..<8 { group.addTask { [db] in await onThread { try? db.observatory.running().connection } } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let first = try #require(connections[0])
        #expect(connections.allSatisfy { $0 === first })
    }

    /// The lock that is held while a connection opens delays neither commits nor callers that ask for the last commit.
    @Test func theLastCommitDoesNotWaitForAnOpening() async throws {
        let buffer = try db.observatory.consumer(of: .fullDatabase, capacity: 8)
        let before = try #require(db.observatory.lastCommit)
        let after = Shared<WalIndex.Header?>(nil)
        let isThere = await onThread { [db] in
            db.observatory.transitions.withLock {
                Thread.detachNewThread {
                    try? db.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
                    let last = db.observatory.lastCommit
                    after.change { $0 = last }
                }
                after.wait(within: .seconds(10)) { $0 != nil }
                return after.value != nil
            }
        }
        #expect(isThere)
        #expect(after.value?.commitCounter == before.commitCounter + 1)
        buffer.finish()
    }
}
