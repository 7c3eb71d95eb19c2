import com.google.common.util.concurrent.RateLimiter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What one writes in Java: Guava's RateLimiter in a ConcurrentHashMap.
 *
 * <p>Usage: GuavaRounds KEYS. Says "ready" once every key has a limiter and the code is compiled;
 * then, for each line of standard input, asks for every key once and prints the nanoseconds per
 * decision.
 */
public final class GuavaRounds {
  private static final int WARM_UPS = 5;
  private static final double PERMITS_PER_SECOND = 1e6;

  private final ConcurrentHashMap<String, RateLimiter> limiters = new ConcurrentHashMap<>();

  private boolean tryAcquire(String key) {
    RateLimiter limiter = limiters.get(key);
    if (limiter == null) {
      // A server's keys are read from the wire: the map's copy is not the caller's.
      limiter =
          limiters.computeIfAbsent(
              new String(key.toCharArray()), unused -> RateLimiter.create(PERMITS_PER_SECOND));
    }
    return limiter.tryAcquire();
  }

  private static long mix(long z) {
    z += 0x9E3779B97F4A7C15L;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }

  /** The keys of bench/memory/key_array.h. */
  private static String[] makeKeys(int count) {
    String[] keys = new String[count];
    for (int i = 0; i < count; ++i) {
      long number = mix(i);
      String digits = Long.toHexString(number);
      keys[i] =
          "0".repeat(16 - digits.length())
              + digits
              + ".".repeat((int) Long.remainderUnsigned(number, 9));
    }
    return keys;
  }

  private double askAll(String[] keys) {
    int admitted = 0;
    long begin = System.nanoTime();
    for (String key : keys) {
      if (tryAcquire(key)) {
        ++admitted;
      }
    }
    double nanoseconds = (double) (System.nanoTime() - begin);
    if (admitted < keys.length * 0.99) {
      throw new IllegalStateException("requests were denied that must be admitted");
    }
    return nanoseconds / keys.length;
  }

  public static void main(String[] arguments) throws IOException {
    if (arguments.length != 1) {
      System.err.println("usage: GuavaRounds KEYS");
      System.exit(2);
    }
    String[] keys = makeKeys(Integer.parseInt(arguments[0]));
    GuavaRounds rounds = new GuavaRounds();
    for (int i = 0; i < WARM_UPS; ++i) {
      rounds.askAll(keys);
    }
    System.out.println("ready");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    while (input.readLine() != null) {
      System.out.printf("%.2f%n", rounds.askAll(keys));
    }
  }
}
