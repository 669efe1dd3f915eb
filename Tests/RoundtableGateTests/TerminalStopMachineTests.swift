import RoundtableTestBasics
import Testing

@testable import RoundtableGate

@Suite struct TerminalStopMachineTests {
    /// A machine that `#expect` may ask to change.
    private final class Machine {
        private var machine = TerminalStopMachine()
        var state: TerminalStopMachine.State { machine.state }
        func look(_ isStopAsked: Bool) -> TerminalStopMachine.Action? { machine.look(isStopAsked: isStopAsked) }
        func didClose(_ closing: UInt64) -> Bool { machine.didClose(closing) }
        func didContinue() -> TerminalStopMachine.Action? { machine.didContinue() }
    }

    @Test func closesThenStopsThenOpens() {
        let machine = Machine()
        #expect(machine.look(true) == .close(1))
        #expect(machine.didClose(1))
        #expect(machine.state == .stopping)
        #expect(machine.didContinue() == .open)
        #expect(machine.look(false) == nil)
        #expect(machine.look(true) == .close(2))
    }

    @Test func continuedWithoutHavingBeenStopped() {
        let machine = Machine()
        #expect(machine.look(false) == nil)
        #expect(machine.state == .running)
    }

    @Test func secondStopWhileClosingChangesNothing() {
        let machine = Machine()
        #expect(machine.look(true) == .close(1))
        #expect(machine.look(true) == nil)
        #expect(machine.didClose(1))
    }

    @Test func continuedWhileClosing() {
        let machine = Machine()
        #expect(machine.look(true) == .close(1))
        #expect(machine.look(false) == .open)
        // It is stopped again, before the first closing has noticed.
        #expect(machine.look(true) == .close(2))
        #expect(!machine.didClose(1))
        #expect(machine.didClose(2))
    }

    /// SIGCONT between closing and stopping: the system does not stop the process.
    @Test func continuedBeforeItStops() {
        let machine = Machine()
        #expect(machine.look(true) == .close(1))
        #expect(machine.didClose(1))
        #expect(machine.look(false) == nil)
        #expect(machine.didContinue() == .open)
        #expect(machine.didContinue() == nil)
    }

    /// All orders of ten steps: the gates are closed while it stops and open while it runs, and when SIGCONT comes and nothing more,
    /// it runs in the end.
    @Test func allOrders() {
        struct World: Hashable {
            var machine = TerminalStopMachine()
            var areClosed = false
            /// Closings that have not ended, including those that were abandoned.
            var closings: [UInt64] = []
            var isStopAsked = false

            static func == (one: World, other: World) -> Bool {
                one.machine == other.machine && one.areClosed == other.areClosed && one.closings == other.closings
                    && one.isStopAsked == other.isStopAsked
            }
            func hash(into hasher: inout Hasher) {
                hasher.combine(closings)
                hasher.combine(isStopAsked)
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

            mutating func look() { act(machine.look(isStopAsked: isStopAsked)) }

            mutating func end(_ index: Int) {
                if machine.didClose(closings.remove(at: index)) { #expect(areClosed) }
            }

            /// The system stops it if that is still asked.
            mutating func goOn() {
                isStopAsked = false
                act(machine.didContinue())
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
                add { $0.isStopAsked = true }
                add { $0.isStopAsked = false }
                add { $0.look() }
                for index in closings.indices { add { $0.end(index) } }
                if machine.state == .stopping { add { $0.goOn() } }
                return next
            }

            /// SIGCONT arrives, and everything completes.
            mutating func settle() {
                isStopAsked = false
                look()
                while !closings.isEmpty { end(0) }
                if machine.state == .stopping { goOn() }
                look()
            }
        }
        var worlds: Set<World> = [World()]
        var count = 0
        for _ in 0..<10 {
            worlds = Set(worlds.flatMap(\.next))
            for var world in worlds {
                world.settle()
                #expect(world.machine.state == .running && !world.areClosed)
            }
            count += worlds.count
        }
        #expect(count > 100, "\(count) worlds")
    }
}
