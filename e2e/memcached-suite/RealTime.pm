# memcached's tests move the clock of the server with its command debugtime, which only a debug build has. For every
# other server this waits as long. Loaded with perl -M before a test, which then imports this mem_move_time.
package RealTime;
use strict;
use warnings;
use MemcachedTest ();

# A server that looks at its clock once a second is up to a second behind.
use constant CLOCK_TICK_S => 1.1;

no warnings 'redefine';
*MemcachedTest::mem_move_time = sub {
    my ($sock, $seconds) = @_;
    print $sock "debugtime $seconds\r\n";
    MemcachedTest::sleep($seconds + CLOCK_TICK_S) if <$sock> =~ /^ERROR/;
};

1;
