import Metrics
import Synchronization

/// Keeps what is recorded with swift-metrics in this process, and writes it in
/// [Prometheus' text format](https://prometheus.io/docs/instrumenting/exposition_formats/). It is short, so that you can read it. A program of
/// your own takes a backend that others maintain, such as swift-prometheus.
final class MetricsRegistry: MetricsFactory {
    private struct ID: Hashable {
        var name: String
        var labels: String
        var kind: Series.Kind
    }

    private let all = Mutex<[ID: Series]>([:])

    /// All metrics, sorted by their names.
    var text: String {
        let all = all.withLock { $0 }.sorted { ($0.key.name, $0.key.labels) < ($1.key.name, $1.key.labels) }
        var text = ""
        var name: String?
        for (id, series) in all {
            if id.name != name { text += "# TYPE \(id.name) \(id.kind.rawValue)\n" }
            name = id.name
            let labels = id.labels.isEmpty ? "" : "{\(id.labels)}"
            let (count, value) = series.values
            if id.kind == .summary {
                text += "\(id.name)_count\(labels) \(count)\n\(id.name)_sum\(labels) \(value)\n"
            } else {
                text += "\(id.name)\(labels) \(value)\n"
            }
        }
        return text
    }

    private func series(_ kind: Series.Kind, _ name: String, _ dimensions: [(String, String)]) -> Series {
        let labels = dimensions.map { "\(Self.name($0))=\"\(Self.escaped($1))\"" }.joined(separator: ",")
        let id = ID(name: Self.name(name), labels: labels, kind: kind)
        return all.withLock { all in
            if let series = all[id] { return series }
            let series = Series(kind)
            all[id] = series
            return series
        }
    }

    private static func name(_ text: String) -> String {
        String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
    }

    private static func escaped(_ text: String) -> String {
        text.map { character in
            switch character {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            default: String(character)
            }
        }.joined()
    }

    // MARK: MetricsFactory

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(.counter, "\(label)_total", dimensions)
    }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(.gauge, label, dimensions)
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        series(aggregate ? .summary : .gauge, label, dimensions)
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(.summary, "\(label)_seconds", dimensions)
    }

    // A series stays when its last handler is destroyed, because counters must not fall.
    func destroyCounter(_: any CounterHandler) {}
    func destroyMeter(_: any MeterHandler) {}
    func destroyRecorder(_: any RecorderHandler) {}
    func destroyTimer(_: any TimerHandler) {}
}

/// The values of one metric with certain labels.
private final class Series: CounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    enum Kind: String {
        case counter, gauge, summary
    }

    private struct State {
        var count = 0
        var value = 0.0
    }

    private let kind: Kind
    private let state = Mutex(State())

    init(_ kind: Kind) { self.kind = kind }

    var values: (count: Int, value: Double) { state.withLock { ($0.count, $0.value) } }

    func increment(by amount: Int64) { add(Double(amount)) }
    func increment(by amount: Double) { add(amount) }
    func decrement(by amount: Double) { add(-amount) }
    func reset() { state.withLock { $0 = State() } }
    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { state.withLock { $0.value = value } }
    func record(_ value: Int64) { record(Double(value)) }
    func record(_ value: Double) { kind == .gauge ? set(value) : add(value) }
    func recordNanoseconds(_ duration: Int64) { add(Double(duration) / 1e9) }

    private func add(_ value: Double) {
        state.withLock { state in
            state.count += 1
            state.value += value
        }
    }
}
