import ArgumentParser
import Foundation
import RoundtableTestKit
import RoundtableToolSupport

#if os(Linux)
    import Glibc
#endif

struct PoliceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "police",
        abstract: "Suspend a program at random moments as iOS does, and convict it of the locks that it holds then.",
        discussion: """
            iOS kills a process that it suspends while the process holds a lock on a shared file: 0xDEAD10CC. This shows it on Linux, from outside, \
            for any program: the program and its descendants are stopped (SIGSTOP) at random moments, their locks are examined, \
            and a process that holds a forbidden lock is killed and reported: its name, the file, the bytes and the rule.

            Before each freeze, a program that handles SIGTSTP gets it, and one that is connected to the police gets a message; \
            section J of docs/OPERATIONS-FORMATS.md describes these messages, and those of assertions.

            Exit code: 0 when nothing was convicted, 2 when something was, 1 when the program failed by itself \
            or was never frozen.

            Examples:
              roundtable police -- ./my-daemon app.db
              roundtable police --keep-going --freezes 500 --notice 0 -- python3 writer.py
              roundtable police --strict --json --pid 4242
            """
    )

    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("The program and its arguments.", valueName: "command")
    )
    var command: [String] = []

    @Option(help: ArgumentHelp("Judge a process that runs already, instead of a command.", valueName: "pid"))
    var pid: Int32?

    // Numbers are parsed unconditionally, so that a negative number is reported as such, and not taken for an option.

    @Option(parsing: .unconditional, help: ArgumentHelp("End after so many freezes.", valueName: "n"))
    var freezes = 100

    @Option(parsing: .unconditional, help: ArgumentHelp("End after so long.", valueName: "seconds"))
    var seconds: Double?

    @Option(parsing: .unconditional, help: ArgumentHelp("The longest pause between two freezes.", valueName: "ms"))
    var pause = 100.0

    @Option(
        name: .customLong("frozen-for"),
        parsing: .unconditional,
        help: ArgumentHelp("How long a freeze lasts.", valueName: "ms")
    )
    var frozenFor = 0.0

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("How long before the freeze the program gets notice; 'none': no notice.", valueName: "ms")
    )
    var notice = "50"

    @Option(
        name: .customLong("notice-signal"),
        help: ArgumentHelp("The signal of the notice: TSTP, USR1, USR2 or none.", valueName: "name")
    )
    var noticeSignal = NoticeSignal.terminalStop

    @Option(
        name: .customLong("assertion-time"),
        parsing: .unconditional,
        help: ArgumentHelp("How long an assertion puts the freeze off at most; 0: not at all.", valueName: "seconds")
    )
    var assertionTime = 30.0

    @Option(
        name: .customLong("expiry-notice"),
        parsing: .unconditional,
        help: ArgumentHelp("How long before the end of that time the program gets notice.", valueName: "seconds")
    )
    var expiryNotice = 2.0

    @Flag(help: "Convict of any lock at all: readers, checkpoints, idle connections.")
    var strict = false

    @Option(
        name: .customLong("private"),
        help: ArgumentHelp("A folder that is not examined: the app's own; repeat it.", valueName: "folder"),
        completion: .directory
    )
    var privateContainers: [String] = []

    @Option(
        name: .customLong("temporary"),
        help: ArgumentHelp("A folder for temporary files, which is not examined; repeat it.", valueName: "folder"),
        completion: .directory
    )
    var temporaryFolders: [String] = []

    @Flag(name: .customLong("keep-going"), help: "Convict without killing.")
    var keepGoing = false

    @Option(help: ArgumentHelp("The seed of the random moments, as an earlier run printed it.", valueName: "number"))
    var seed: String?

    @Flag(help: "Print one JSON object; the program's output goes to standard error.")
    var json = false

    enum NoticeSignal: String, ExpressibleByArgument, CaseIterable {
        case terminalStop = "TSTP"
        case user1 = "USR1"
        case user2 = "USR2"
        case none
    }

    func validate() throws {
        guard command.isEmpty != (pid == nil) else {
            throw ValidationError("police takes a command after '--', or --pid, and not both.")
        }
        guard freezes > 0 else { throw ValidationError("--freezes takes a number that is at least 1.") }
        let times = [
            ("--pause", pause), ("--frozen-for", frozenFor), ("--assertion-time", assertionTime),
            ("--expiry-notice", expiryNotice), ("--seconds", seconds ?? 0),
        ]
        for (option, time) in times where !Self.times.contains(time) {
            throw ValidationError("\(option) takes a number from 0 to 100,000,000.")
        }
        guard notice == "none" || noticeMilliseconds.map(Self.times.contains) == true else {
            throw ValidationError("--notice takes milliseconds, from 0 to 100,000,000, or 'none'.")
        }
        guard seed == nil || seedNumber != nil else { throw ValidationError("--seed takes a number, such as 0x1a2b.") }
    }

    private static let times = 0...1e8

    private var noticeMilliseconds: Double? { Double(notice) }

    private var seedNumber: UInt64? {
        guard let seed else { return nil }
        return seed.hasPrefix("0x") ? UInt64(seed.dropFirst(2), radix: 16) : UInt64(seed)
    }

    func run() throws {
        #if os(Linux)
            try judge()
        #else
            throw ToolError("police works on Linux only: it reads /proc")
        #endif
    }
}

#if os(Linux)
    extension PoliceCommand {
        private var terms: SuspensionTerms {
            var terms = SuspensionTerms()
            terms.law = strict ? .strict : .documented
            terms.law.privateContainers = privateContainers
            terms.law.temporaryFolders = temporaryFolders
            terms.notice = noticeMilliseconds.map { .seconds($0 / 1000) }
            terms.noticeSignal = noticeSignal.number
            terms.assertionTime = .seconds(assertionTime)
            terms.expiryNotice = .seconds(expiryNotice)
            terms.punishment = keepGoing ? .report : .kill
            return terms
        }

        private func judge() throws {
            let end = WatchEnd()
            let signals = EndingSignals { end.reach(.signal($0)) }
            defer { signals.ignore() }
            let police = try SuspensionPolice(terms)
            defer { police.end() }
            let subject: Int32
            if let pid {
                guard kill(pid, 0) == 0 || errno == EPERM else {
                    throw ToolError("there is no process with pid \(pid): see 'ps -e'")
                }
                subject = pid
            } else {
                subject = try police.launch(command, outputToErrors: json)
            }
            let terminal = pid == nil ? ForegroundLoan(to: subject) : nil
            defer { terminal?.takeBack() }

            let report = try police.patrol(
                subject,
                freezes: freezes,
                pauses: .zero...(.seconds(pause / 1000)),
                frozenFor: .seconds(frozenFor / 1000),
                seed: seedNumber ?? .random(in: 0...UInt64.max),
                timeLimit: seconds.map { .seconds($0) },
                onVerdict: { verdict in
                    for conviction in verdict.convictions { Terminal.complain("convicted: \(conviction)") }
                },
                continueWhile: { end.wait(until: .now()) == nil }
            )
            let hasEndedByItself = police.hasEnded(subject)
            police.terminate(subject)
            let exit = hasEndedByItself ? police.exit(of: subject) : nil
            terminal?.takeBack()
            Terminal.write(json ? PoliceText.json(report) : Terminal.dressed(PoliceText(report).lines))
            do {
                try finish(report, exit, end.wait(until: .now()))
            } catch let error as ToolError where json {
                // The report stays the one object on standard output.
                Terminal.complain(error.description)
                throw ExitCode(error.exitCode)
            }
        }

        private func finish(
            _ report: PoliceReport,
            _ exit: LaunchedProcess.Exit?,
            _ reason: WatchEnd.Reason?
        ) throws {
            if report.convicted > 0 { throw ExitCode(2) }
            if case .signal(let number) = reason { throw ExitCode(128 + number) }
            switch exit {
            case .status(let status) where status != 0: throw ToolError("\(command[0]): ended with exit code \(status)")
            case .signal(let number): throw ToolError("\(command[0]): ended by signal \(number)")
            default: break
            }
            guard report.freezes > 0 else {
                let subject = command.first ?? "pid \(pid ?? 0)"
                throw ToolError("\(subject): was never frozen: it, or the time, ended before. Lower --pause.")
            }
        }
    }

    extension PoliceCommand.NoticeSignal {
        fileprivate var number: Int32? {
            switch self {
            case .terminalStop: SIGTSTP
            case .user1: SIGUSR1
            case .user2: SIGUSR2
            case .none: nil
            }
        }
    }

    /// Makes the judged program the foreground process of the terminal while it runs, so that it can read, and Ctrl-C reaches it. That is
    /// needed because it has its own process group.
    private final class ForegroundLoan {
        private var isLent: Bool

        init(to group: Int32) {
            isLent = isatty(STDIN_FILENO) == 1
            guard isLent else { return }
            // The system sends SIGTTOU to a process in the background that takes the terminal back.
            signal(SIGTTOU, SIG_IGN)
            isLent = tcsetpgrp(STDIN_FILENO, group) == 0
        }

        func takeBack() {
            if isLent { tcsetpgrp(STDIN_FILENO, getpgrp()) }
            isLent = false
        }
    }
#endif
