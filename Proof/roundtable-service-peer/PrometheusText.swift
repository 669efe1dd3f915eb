#if Service
    import CoreMetrics
    import Foundation
    import Synchronization

    /// Keeps metrics in memory, and writes them in Prometheus's text format
    /// (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Timers are summaries without quantiles, in seconds.
    final class PrometheusText: MetricsFactory {
        fileprivate struct Key: Hashable, Comparable {
            var name: String
            var labels: String

            static func < (one: Key, other: Key) -> Bool { (one.name, one.labels) < (other.name, other.labels) }
        }

        fileprivate enum Value {
            case counter(Int64)
            case gauge(Double)
            case summary(count: Int, sum: Double)

            var type: String {
                switch self {
                case .counter: "counter"
                case .gauge: "gauge"
                case .summary: "summary"
                }
            }
        }

        private let values = Mutex<[Key: Value]>([:])

        var text: String {
            var lines: [String] = []
            var last = ""
            for (key, value) in values.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
                if key.name != last { lines.append("# TYPE \(key.name) \(value.type)") }
                last = key.name
                switch value {
                case .counter(let count): lines.append("\(key.name)\(key.labels) \(count)")
                case .gauge(let value): lines.append("\(key.name)\(key.labels) \(Self.text(value))")
                case .summary(let count, let sum):
                    lines.append("\(key.name)_sum\(key.labels) \(Self.text(sum))")
                    lines.append("\(key.name)_count\(key.labels) \(count)")
                }
            }
            return lines.joined(separator: "\n") + "\n"
        }

        private static func text(_ value: Double) -> String {
            value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : String(format: "%.6f", value)
        }

        fileprivate func change(_ key: Key, _ initial: Value, _ body: (inout Value) -> Void) {
            values.withLock { body(&$0[key, default: initial]) }
        }

        private func key(_ label: String, _ unit: String, _ dimensions: [(String, String)]) -> Key {
            func name(_ text: String) -> String { String(text.map { $0.isLetter || $0.isNumber ? $0 : "_" }) }
            func quoted(_ text: String) -> String {
                text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"")
            }
            let labels = dimensions.map { "\(name($0.0))=\"\(quoted($0.1))\"" }.joined(separator: ",")
            return Key(name: name(label) + unit, labels: labels.isEmpty ? "" : "{\(labels)}")
        }

        // MARK: MetricsFactory

        func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
            Series(key(label, "_total", dimensions), self)
        }

        func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
            Series(key(label, "", dimensions), self)
        }

        func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
            Series(key(label, "_seconds", dimensions), self)
        }

        func destroyCounter(_ handler: any CounterHandler) {}
        func destroyRecorder(_ handler: any RecorderHandler) {}
        func destroyTimer(_ handler: any TimerHandler) {}

        private final class Series: CounterHandler, RecorderHandler, TimerHandler {
            let key: Key
            let text: PrometheusText

            init(_ key: Key, _ text: PrometheusText) { (self.key, self.text) = (key, text) }

            func increment(by amount: Int64) {
                text.change(key, .counter(0)) { if case .counter(let count) = $0 { $0 = .counter(count + amount) } }
            }

            func reset() { text.change(key, .counter(0)) { $0 = .counter(0) } }
            func record(_ value: Int64) { record(Double(value)) }
            func record(_ value: Double) { text.change(key, .gauge(0)) { $0 = .gauge(value) } }

            func recordNanoseconds(_ duration: Int64) {
                text.change(key, .summary(count: 0, sum: 0)) {
                    if case .summary(let count, let sum) = $0 {
                        $0 = .summary(count: count + 1, sum: sum + Double(duration) / 1e9)
                    }
                }
            }
        }
    }
#endif
