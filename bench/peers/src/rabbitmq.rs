//! RabbitMQ by AMQP 0-9-1: persistent messages to a durable queue with publisher confirms; a consumer whose prefetch is
//! the number of slots, and which acknowledges everything it has received at once. Acknowledgements of jobs are not
//! answered; at the end the queue has to be empty.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crore_testkit::{DebianPackage, SupervisedServer, free_port};

use crate::amqp::{Amqp, AmqpArgs, AmqpFrame};
use crate::job::{self, SLOTS};
use crate::ledger::PeerLedger;
use crate::peer::{PeerDurability, PeerFault, PeerSetting, QueuePeer};
use crate::produce::{PeerProducer, produce};
use crate::server;

const CLASSIC: PeerSetting = PeerSetting::new("classic", PeerDurability::Synced);
const QUORUM: PeerSetting = PeerSetting::new("quorum", PeerDurability::Synced);

/// Keeps everything in the server's own directory, on a private node. Runs its own port mapper, which ends with it: one
/// started by the server would stay.
const SCRIPT: &str = r#"
export HOME="$PWD" RABBITMQ_NODE_PORT="$1" RABBITMQ_DIST_PORT="$2" ERL_EPMD_PORT="$3"
export ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODENAME=peer@localhost
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
export RABBITMQ_MNESIA_BASE="$PWD/data" RABBITMQ_LOG_BASE="$PWD" RABBITMQ_LOGS=-
export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$PWD/none" RABBITMQ_CONFIG_FILES="$PWD/none.d"
export RABBITMQ_ADVANCED_CONFIG_FILE="$PWD/none.config" RABBITMQ_ENABLED_PLUGINS_FILE="$PWD/plugins"
export RUNNING_UNDER_SYSTEMD=yes
echo '[].' >plugins
setpriv --pdeathsig KILL epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
exec /usr/lib/rabbitmq/bin/rabbitmq-server
"#;

const QUEUE: &str = "jobs";
/// How long a worker waits before it checks for the end of the run.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct RabbitMqPeer;

impl QueuePeer for RabbitMqPeer {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn packages(&self) -> Vec<DebianPackage> {
        let programs = &["/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd"];
        vec![DebianPackage::Other { name: "rabbitmq-server", programs }]
    }

    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault> {
        Ok(vec![CLASSIC, QUORUM])
    }

    fn start(&self, _: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault> {
        let ports = [free_port()?, free_port()?].map(|port| port.to_string());
        server::start("rabbitmq", SCRIPT, &ports.each_ref().map(String::as_str), below)
    }

    fn drive(
        &self,
        setting: &PeerSetting,
        port: u16,
        ledger: &Arc<PeerLedger>,
    ) -> Result<u64, PeerFault> {
        let mut client = Amqp::open(port)?;
        declare(&mut client, setting)?;
        let (mut pushing, mut working) = (RabbitMqProducer::open(port)?, Amqp::open(port)?);
        thread::scope(|scope| {
            let producer = scope.spawn(move || produce(ledger, &mut pushing));
            work(ledger, &mut working)?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        // Unacknowledged messages return to the queue when their channel is closed.
        working.call(CHANNEL_CLOSE, &AmqpArgs::new().short(0).text("").short(0).short(0))?;
        declare(&mut client, setting)
    }
}

const CHANNEL_CLOSE: (u16, u16) = (20, 40);
const QUEUE_DECLARE: (u16, u16) = (50, 10);
const BASIC_QOS: (u16, u16) = (60, 10);
const BASIC_CONSUME: (u16, u16) = (60, 20);
const BASIC_PUBLISH: (u16, u16) = (60, 40);
const BASIC_DELIVER: (u16, u16) = (60, 60);
const BASIC_ACK: (u16, u16) = (60, 80);
const CONFIRM_SELECT: (u16, u16) = (85, 10);

/// Declares the queue, and returns the number of ready messages.
fn declare(client: &mut Amqp, setting: &PeerSetting) -> Result<u64, PeerFault> {
    const DURABLE: u8 = 2;
    let args = AmqpArgs::new().short(0).text(QUEUE).byte(DURABLE);
    let answer = client.call(QUEUE_DECLARE, &args.table(&[("x-queue-type", setting.name)]))?;
    let mut answer = answer.args();
    answer.text()?;
    answer.long().map(u64::from)
}

fn work(ledger: &PeerLedger, client: &mut Amqp) -> Result<(), PeerFault> {
    client.call(BASIC_QOS, &AmqpArgs::new().long(0).short(SLOTS as u16).byte(0))?;
    client
        .call(BASIC_CONSUME, &AmqpArgs::new().short(0).text(QUEUE).text("").byte(0).table(&[]))?;
    let (mut done, mut newest) = (Vec::with_capacity(SLOTS), 0);
    while !ledger.is_over() {
        if !client.connection.wait(POLL_INTERVAL)? {
            continue;
        }
        while client.connection.has_more() {
            match client.frame()? {
                AmqpFrame::Method { method: BASIC_DELIVER, args } => {
                    let mut args = args.read();
                    args.text()?;
                    newest = args.longlong()?;
                }
                AmqpFrame::Body(body) => {
                    let number = job::number(&body);
                    ledger.ran([number]);
                    done.push(number);
                }
                AmqpFrame::Header => {}
                other @ AmqpFrame::Method { .. } => {
                    return Err(format!("unexpected frame of rabbitmq: {other:?}").into());
                }
            }
        }
        if !done.is_empty() {
            const ALL_BEFORE_TOO: u8 = 1;
            client.put_method(BASIC_ACK, &AmqpArgs::new().longlong(newest).byte(ALL_BEFORE_TOO));
            client.connection.send()?;
            ledger.finished(done.drain(..));
        }
    }
    Ok(())
}

/// A connection, and its unconfirmed messages.
#[derive(Debug)]
struct RabbitMqProducer {
    client: Amqp,
    next: u64,
    unconfirmed: BTreeSet<u64>,
}

impl RabbitMqProducer {
    fn open(port: u16) -> Result<Self, PeerFault> {
        let mut client = Amqp::open(port)?;
        client.call(CONFIRM_SELECT, &AmqpArgs::new().byte(0))?;
        Ok(Self { client, next: 1, unconfirmed: BTreeSet::new() })
    }

    /// Returns the number of messages that a confirm covers.
    fn confirmed(&mut self, tag: u64, all_before_too: bool) -> u64 {
        if !all_before_too {
            return u64::from(self.unconfirmed.remove(&tag));
        }
        let later = self.unconfirmed.split_off(&(tag + 1));
        std::mem::replace(&mut self.unconfirmed, later).len() as u64
    }
}

impl PeerProducer for RabbitMqProducer {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), PeerFault> {
        for job in jobs {
            self.client
                .put_method(BASIC_PUBLISH, &AmqpArgs::new().short(0).text("").text(QUEUE).byte(0));
            self.client.put_message(BASIC_PUBLISH.0, &job::with(job));
            self.unconfirmed.insert(self.next);
            self.next += 1;
        }
        self.client.connection.send()
    }

    fn answer(&mut self) -> Result<u64, PeerFault> {
        let mut n = 0;
        while n == 0 || self.client.connection.has_more() {
            match self.client.frame()? {
                AmqpFrame::Method { method: BASIC_ACK, args } => {
                    let mut args = args.read();
                    let tag = args.longlong()?;
                    n += self.confirmed(tag, args.byte()? & 1 == 1);
                }
                other => return Err(format!("unexpected frame of rabbitmq: {other:?}").into()),
            }
        }
        Ok(n)
    }
}
