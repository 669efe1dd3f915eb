import GRDB

/// Transactions for a database, and how they are run with GRDB. The results can be checked by ``HistoryChecker``.
///
/// A test of somebody else's code uses only ``plan(using:)``, and runs the steps by that code: see ``Worker/run(_:transactions:_:)``.
public protocol Workload: Sendable {
    /// Creates the tables of the workload, if they are not there.
    func prepare(_ db: Database) throws

    /// The steps of the next transaction, without results.
    func plan(using source: inout WorkloadSource) -> [Step]

    /// Runs planned steps in a transaction.
    ///
    /// - returns: the steps with their results.
    func perform(_ steps: [Step], _ db: Database) throws -> [Step]

    /// Reads everything at the end of a test, when all workers have ended, so that lost writes are found.
    func finish(_ db: Database) throws -> [Step]
}

/// What a workload chooses from: random numbers, and numbers that no other transaction has.
public struct WorkloadSource: Sendable {
    /// The random numbers, which depend on the seed of the fleet and on the number of the worker.
    public var generator: SeededGenerator
    /// The number of the transaction among those of its worker and of the killed workers before it.
    public internal(set) var index: Int
    private var next: Int

    /// - Parameters:
    ///   - worker: the number of the worker, at least 0.
    ///   - seed: the seed of the random numbers.
    ///   - index: the number of the first transaction.
    public init(worker: Int, seed: UInt64, index: Int = 0) {
        var mixer = SeededGenerator(seed: seed &+ UInt64(worker))
        generator = SeededGenerator(seed: mixer.next())
        self.index = index
        next = worker * 1_000_000_000
    }

    /// A number that no other call returns, in any worker.
    public mutating func unique() -> Int {
        next += 1
        return next
    }

    /// A random number.
    public mutating func random(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }
}

/// Transactions that append to some lists and read some. It finds the most: see ``HistoryChecker``.
public struct ListAppend: Workload {
    /// The number of lists that are in use at the same time.
    public var lists: Int
    /// The largest number of steps of a transaction.
    public var steps: Int
    /// The number of transactions of a worker after which it takes new lists, so that lists stay short.
    public var transactionsPerGeneration: Int

    public init(lists: Int = 8, steps: Int = 4, transactionsPerGeneration: Int = 48) {
        self.lists = lists
        self.steps = steps
        self.transactionsPerGeneration = transactionsPerGeneration
    }

    public func prepare(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS list_elements (id INTEGER PRIMARY KEY, list INTEGER NOT NULL, element INTEGER NOT NULL);
                CREATE INDEX IF NOT EXISTS list_elements_by_list ON list_elements (list);
                """
        )
    }

    public func plan(using source: inout WorkloadSource) -> [Step] {
        let first = source.index / transactionsPerGeneration * lists
        let isReader = source.random(0..<4) == 0
        return (0..<source.random(1..<steps + 1)).map { _ in
            let list = first + source.random(0..<lists)
            return isReader || source.random(0..<2) == 0 ? .list(list) : .append(list: list, element: source.unique())
        }
    }

    public func perform(_ steps: [Step], _ db: Database) throws -> [Step] {
        try steps.map { step in
            switch step {
            case .append(let list, let element):
                try db.cachedStatement(sql: "INSERT INTO list_elements (list, element) VALUES (?, ?)")
                    .execute(arguments: [list, element])
                return step
            case .list(let list, _):
                let statement = try db.cachedStatement(
                    sql: "SELECT element FROM list_elements WHERE list = ? ORDER BY id"
                )
                return .list(list, elements: try Int.fetchAll(statement, arguments: [list]))
            default: throw TestKitError("ListAppend cannot \(step)")
            }
        }
    }

    public func finish(_ db: Database) throws -> [Step] {
        var lists: [Int: [Int]] = [:]
        let rows = try Row.fetchCursor(db, sql: "SELECT list, element FROM list_elements ORDER BY id")
        while let row = try rows.next() { lists[row[0], default: []].append(row[1]) }
        return lists.sorted { $0.key < $1.key }.map { .list($0.key, elements: $0.value) }
    }
}

/// Reads, writes, and replacements (a read and a write in one transaction) of some registers.
public struct Register: Workload {
    public var registers: Int

    public init(registers: Int = 16) { self.registers = registers }

    public func prepare(_ db: Database) throws {
        try db.execute(
            sql: "CREATE TABLE IF NOT EXISTS registers (register INTEGER PRIMARY KEY, value INTEGER NOT NULL)"
        )
    }

    public func plan(using source: inout WorkloadSource) -> [Step] {
        let register = source.random(0..<registers)
        return switch source.random(0..<4) {
        case 0...1: [.value(register: register), .write(register: register, value: source.unique())]
        case 2: [.write(register: register, value: source.unique())]
        default: [.value(register: register), .value(register: source.random(0..<registers))]
        }
    }

    public func perform(_ steps: [Step], _ db: Database) throws -> [Step] {
        try steps.map { step in
            switch step {
            case .write(let register, let value):
                try db.cachedStatement(sql: "INSERT OR REPLACE INTO registers VALUES (?, ?)")
                    .execute(arguments: [register, value])
                return step
            case .value(let register, _):
                let statement = try db.cachedStatement(sql: "SELECT value FROM registers WHERE register = ?")
                return .value(register: register, value: try Int.fetchOne(statement, arguments: [register]))
            default: throw TestKitError("Register cannot \(step)")
            }
        }
    }

    public func finish(_ db: Database) throws -> [Step] {
        try perform((0..<registers).map { .value(register: $0) }, db)
    }
}

/// Transfers between the accounts of a bank. Each read must show the total that the bank began with.
public struct Bank: Workload {
    public var accounts: Int
    /// What each account has in the beginning.
    public var deposit: Int

    public init(accounts: Int = 8, deposit: Int = 100) {
        self.accounts = accounts
        self.deposit = deposit
    }

    public func prepare(_ db: Database) throws {
        try db.execute(
            sql: "CREATE TABLE IF NOT EXISTS accounts (account INTEGER PRIMARY KEY, balance INTEGER NOT NULL)"
        )
        for account in 0..<accounts {
            try db.execute(sql: "INSERT OR IGNORE INTO accounts VALUES (?, ?)", arguments: [account, deposit])
        }
    }

    public func plan(using source: inout WorkloadSource) -> [Step] {
        if source.random(0..<3) == 0 { return [.balances(total: accounts * deposit)] }
        let from = source.random(0..<accounts)
        let to = (from + source.random(1..<accounts)) % accounts
        return [.transfer(from: from, to: to, amount: source.random(1..<10))]
    }

    public func perform(_ steps: [Step], _ db: Database) throws -> [Step] {
        try steps.map { step in
            switch step {
            case .transfer(let from, let to, let amount):
                // Each balance is read and then written, as an app with records does it.
                for (account, change) in [(from, -amount), (to, amount)] {
                    let read = try db.cachedStatement(sql: "SELECT balance FROM accounts WHERE account = ?")
                    let balance = try Int.fetchOne(read, arguments: [account]) ?? 0
                    try db.cachedStatement(sql: "UPDATE accounts SET balance = ? WHERE account = ?")
                        .execute(arguments: [balance + change, account])
                }
                return step
            case .balances(_, let total):
                let statement = try db.cachedStatement(sql: "SELECT balance FROM accounts ORDER BY account")
                return .balances(try Int.fetchAll(statement), total: total)
            default: throw TestKitError("Bank cannot \(step)")
            }
        }
    }

    public func finish(_ db: Database) throws -> [Step] { try perform([.balances(total: accounts * deposit)], db) }
}

/// Producers put items into a queue, and consumers take them out: each item once, and those of one producer in order.
public struct WorkQueue: Workload {
    public init() {}

    public func prepare(_ db: Database) throws {
        try db.execute(
            sql: "CREATE TABLE IF NOT EXISTS queue_items (id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL)"
        )
    }

    public func plan(using source: inout WorkloadSource) -> [Step] {
        source.random(0..<2) == 0 ? [.enqueue(item: source.unique())] : [.claim()]
    }

    public func perform(_ steps: [Step], _ db: Database) throws -> [Step] {
        try steps.map { step in
            switch step {
            case .enqueue(let item):
                try db.cachedStatement(sql: "INSERT INTO queue_items (item) VALUES (?)").execute(arguments: [item])
                return step
            case .claim:
                let read = try db.cachedStatement(sql: "SELECT id, item FROM queue_items ORDER BY id LIMIT 1")
                guard let row = try Row.fetchOne(read) else { return .claim() }
                try db.cachedStatement(sql: "DELETE FROM queue_items WHERE id = ?").execute(arguments: [row[0] as Int])
                return .claim(item: row[1])
            default: throw TestKitError("WorkQueue cannot \(step)")
            }
        }
    }

    /// Claims all that is left, and once more, which finds nothing.
    public func finish(_ db: Database) throws -> [Step] {
        var steps: [Step] = []
        while true {
            steps += try perform([.claim()], db)
            if steps.last == .claim() { return steps }
        }
    }
}
