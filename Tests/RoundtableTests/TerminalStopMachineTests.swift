import RoundtableKernel
import Testing

@testable import Roundtable

@Suite struct TerminalStopMachineTests {
    /// A machine that `#expect` may ask to change.
    private final class Machine {
        private var machine = TerminalStopMachine()
        var state: TerminalStopMachine.State { machine.state }
        func look(_ latest: StopSignals.Latest) -> TerminalStopMachine.Action? { machine.look(latest) }
        func didClose(_ closing: UInt64) -> Bool { machine.didClose(closing) }
        func didGoOn(_ before: StopSignals.Latest) -> TerminalStopMachine.Action? { machine.didGoOn(before) }
    }

    fileprivate static func latest(stop: UInt64, resume: UInt64 = 0) -> StopSignals.Latest {
        StopSignals.Latest(stop: stop, number: 20, resume: resume)
    }

    @Test func closesThenStopsThenOpens() {
        let machine = Machine()
        #expect(machine.look(Self.latest(stop: 1)) == .close(1))
        #expect(machine.didClose(1))
        #expect(machine.state == .stopping)
        #expect(machine.didGoOn(Self.latest(stop: 1)) == .open)
        #expect(machine.look(Self.latest(stop: 1, resume: 2)) == nil)
        #expect(machine.look(Self.latest(stop: 3, resume: 2)) == .close(2))
    }

    @Test func continuedWithoutHavingBeenStopped() {
        let machine = Machine()
        #expect(machine.look(Self.latest(stop: 0, resume: 1)) == nil)
        #expect(machine.state == .running)
    }

    @Test func secondStopWhileClosingChangesNothing() {
        let machine = Machine()
        #expect(machine.look(Self.latest(stop: 1)) == .close(1))
        #expect(machine.look(Self.latest(stop: 2)) == nil)
        #expect(machine.didClose(1))
    }

    @Test func continuedWhileClosing() {
        let machine = Machine()
        #expect(machine.look(Self.latest(stop: 1)) == .close(1))
        #expect(machine.look(Self.latest(stop: 1, resume: 2)) == .open)
        #expect(!machine.didClose(1))
        // And stopped again, before the first closing has noticed.
        #expect(machine.look(Self.latest(stop: 3, resume: 2)) == .close(2))
        #expect(!machine.didClose(1))
        #expect(machine.didClose(2))
    }

    /// What came before the process was stopped is over with it, also where the system did not stop it and no SIGCONT comes.
    @Test func orphanedProcessGroup() {
        let machine = Machine()
        #expect(machine.look(Self.latest(stop: 1)) == .close(1))
        #expect(machine.didClose(1))
        #expect(machine.didGoOn(Self.latest(stop: 2)) == .open)
        #expect(machine.look(Self.latest(stop: 2)) == nil)
        #expect(machine.look(Self.latest(stop: 3)) == .close(2))
    }

    /// All orders of nine steps: the gates are closed while it stops and open while it runs, it stops only for a stop signal that no
    /// SIGCONT has followed as far as it looked, and when nothing happens any more, it runs.
    @Test func allOrders() {
        struct World: Hashable {
            var machine = TerminalStopMachine()
            var areClosed = false
            /// Closings that have not come to their end, those given up too.
            var closings: [UInt64] = []
            var stop: UInt64 = 0
            var resume: UInt64 = 0
            var sequence: UInt64 = 0
            var seen = TerminalStopMachineTests.latest(stop: 0)
            /// What the stop that is under way began with.
            var stopping = TerminalStopMachineTests.latest(stop: 0)

            static func == (one: World, other: World) -> Bool {
                one.machine == other.machine && one.areClosed == other.areClosed && one.closings == other.closings
                    && one.stop == other.stop && one.resume == other.resume && one.seen == other.seen
                    && one.stopping == other.stopping
            }
            func hash(into hasher: inout Hasher) {
                hasher.combine(closings)
                hasher.combine(stop)
                hasher.combine(resume)
            }

            mutating func act(_ action: TerminalStopMachine.Action?) {
                switch action {
                case .close(let closing):
                    #expect(!areClosed)
                    areClosed = true
                    closings.append(closing)
                case .open:
                    #expect(areClosed)
                    areClosed = false
                case nil: break
                }
            }

            mutating func look() {
                seen = TerminalStopMachineTests.latest(stop: stop, resume: resume)
                act(machine.look(seen))
            }

            mutating func end(_ index: Int) {
                let latest = TerminalStopMachineTests.latest(stop: stop, resume: resume)
                guard machine.didClose(closings.remove(at: index)) else { return }
                #expect(areClosed && seen.stop > seen.resume)
                stopping = latest
            }

            mutating func goOn() {
                act(machine.didGoOn(stopping))
            }

            func check() {
                switch machine.state {
                case .running: #expect(!areClosed)
                case .closing, .stopping: #expect(areClosed)
                }
            }

            var next: [World] {
                var next: [World] = []
                func add(_ step: (inout World) -> Void) {
                    var world = self
                    step(&world)
                    world.check()
                    next.append(world)
                }
                add { world in
                    world.sequence += 1
                    world.stop = world.sequence
                }
                add { world in
                    world.sequence += 1
                    world.resume = world.sequence
                }
                add { $0.look() }
                for index in closings.indices { add { $0.end(index) } }
                if machine.state == .stopping { add { $0.goOn() } }
                return next
            }

            /// SIGCONT comes, and everything goes its way.
            mutating func settle() {
                sequence += 1
                resume = sequence
                look()
                while !closings.isEmpty { end(0) }
                if machine.state == .stopping { goOn() }
                look()
            }
        }
        var worlds: Set<World> = [World()]
        var count = 0
        for _ in 0..<9 {
            worlds = Set(worlds.flatMap(\.next))
            for var world in worlds {
                world.settle()
                #expect(world.machine.state == .running && !world.areClosed)
            }
            count += worlds.count
        }
        #expect(count > 1000, "\(count) worlds")
    }
}
